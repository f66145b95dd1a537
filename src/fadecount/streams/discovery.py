"""Keys that appear by themselves (partition selection): what is public of them.

Their figures are rows of the level ``DISCOVERED``: one for each day and stage, with or without
keys, which are sorted. How keys are hidden until then: streams/embargo.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fadecount.checks import require_integer, require_real
from fadecount.errors import bad_parameter
from fadecount.mechanisms import Discovery

DISCOVERED = -1
"""The level of the figures of hidden keys."""

Counts = Mapping[str, int]
"""How many persons brought each key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenKeys:
    """What a stream does with events under undeclared keys; public and fixed.

    They are hidden, and appear by ``discovery``. With ``other``, each counts under that declared
    key too, and the losses of both add up. Of all keys, only the part ``sample`` can appear, chosen
    at random for each day before it begins: it bounds the store if somebody sends ever new keys.

    Of the persons of one address (:func:`address_part`) who bring a hidden key in a day, at most
    ``per_address`` count (None: all): nobody can make a key appear by inventing persons at one
    address. The count of a key is the sum, over addresses, of the smaller of both numbers. So a
    person still moves it by at most 1, and no count of another key: the loss is the same.
    """

    discovery: Discovery
    other: str | None = None
    sample: float = 1.0
    per_address: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.discovery, Discovery):
            example = "such as fadecount.Discovery('1d', ((0, 1.0),), 1e-9)"
            raise bad_parameter("discovery", self.discovery, "a fadecount.Discovery", example)
        remedy = "it is the part of all keys that can appear"
        require_real("sample", self.sample, low=1e-9, high=1.0, open_ends=False, remedy=remedy)
        if (most := self.per_address) is not None:
            remedy = "it is how many persons of one address count under a hidden key"
            require_integer("per_address", most, minimum=1, maximum=1 << 20, remedy=remedy)

    def sampled(self, counts: Counts, secret: bytes) -> Counts:
        """Those of the keys that are in the sample of the day whose secret this is."""
        if self.sample == 1.0:
            return counts
        digest = partial(hashlib.blake2b, key=secret, digest_size=8, person=b"sample")
        return {
            key: number
            for key, number in counts.items()
            if int.from_bytes(digest(key.encode()).digest()) < self.sample * 2.0**64
        }

    def to_json(self) -> dict[str, Any]:
        """The fields, for JSON."""
        fields = {"discovery": self.discovery.to_json(), "other": self.other, "sample": self.sample}
        return fields | ({} if self.per_address is None else {"per_address": self.per_address})

    @property
    def about(self) -> dict[str, Any]:
        """What readers must know of it, for JSON: the fields with the thresholds of the stages, and
        the chance in words."""
        discovery = json.loads(self.discovery.to_json())
        discovery["thresholds"] = self.discovery.thresholds
        return {**self.to_json(), "discovery": discovery, "delta": self.exception}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> HiddenKeys:
        """Those with these fields, checked."""
        return cls(**{**fields, "discovery": Discovery.from_json(fields["discovery"])})

    @property
    def covers(self) -> str:
        """What an interval of a key that appeared does not cover, as the end of a sentence."""
        most = self.per_address
        text = f"; under a key that appears by itself, at most {most} persons of one address count"
        return "" if most is None else text

    @property
    def slot(self) -> str:
        """Day or month: how long keys are hidden at least."""
        return _slot(self.discovery.per)

    @property
    def exception(self) -> str:
        """The chance and what it means, as the end of a sentence about a loss."""
        return exception(self.discovery.delta, self.discovery.per)


def exception(chance: float, per: str) -> str:
    """The chance that a hidden key appears that one person alone brought, and what it means, as the
    end of a sentence about a loss."""
    slot = _slot(per)
    return (
        f"except with a chance of {chance:g} a {slot}, with which a key appears that nobody else"
        f" brought that {slot}"
    )


def _slot(per: str) -> str:
    return "day" if per == "1d" else "month"


def address_share(before: int, more: int, most: int | None) -> int:
    """By how much the count of a hidden key grows with so many ``more`` persons of an address of
    which it was brought by so many ``before``, if at most so many count."""
    return more if most is None else min(before + more, most) - min(before, most)
