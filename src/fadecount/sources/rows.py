"""From the texts of one row to an event, or to the reason why there is none. Every reader judges rows by these rules."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import NamedTuple

from fadecount.sources.options import SourceOptions
from fadecount.sources.report import Reason
from fadecount.sources.times import time_reader

WHOLE_PATTERN = r"^[0-9]{1,18}(?:\.0{1,9})?$"
NEGATIVE_PATTERN = r"^-[0-9]{1,18}(?:\.[0-9]{1,9})?$"
_whole = re.compile(WHOLE_PATTERN.removeprefix("^").removesuffix("$"))
_negative = re.compile(NEGATIVE_PATTERN.removeprefix("^").removesuffix("$"))


class Event(NamedTuple):
    """One good row: Unix seconds (0 without a time column), index of the key, amount, and a fingerprint of the person."""

    seconds: int
    key: int
    amount: int
    person: bytes


class RowJudge:
    """Judges the texts of a row, given in the order of ``options.columns``. Keeps nothing between rows."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._read_time = time_reader(options)
        self._key_index = {key: index for index, key in enumerate(options.keys)}
        self._other = None if options.other is None else self._key_index[options.other]
        columns = options.columns
        self._at = {name: columns.index(name) for name in columns}

    def __call__(self, texts: list[str]) -> Event | Reason:
        options, at = self._options, self._at
        seconds: int | None = 0
        if options.time is not None:
            seconds = self._read_time(texts[at[options.time]])
            if seconds is None:
                return Reason.TIME
        key: int | None = 0
        if options.key is not None:
            key = self._key_index.get(texts[at[options.key]], self._other)
            if key is None:
                return Reason.KEY
        amount: int | Reason = 1
        if options.amount is not None:
            amount = read_amount(texts[at[options.amount]], options.max_amount)
            if isinstance(amount, Reason):
                return amount
        person = b""
        if options.person is not None:
            name = texts[at[options.person]]
            if not name:
                return Reason.PERSON
            person = fingerprint(name)
        assert seconds is not None and key is not None
        return Event(seconds, key, amount, person)


def read_amount(text: str, max_amount: int) -> int | Reason:
    """A whole number from 0 to ``max_amount`` (``3`` or ``3.0``), or the reason why it is none."""
    if _whole.fullmatch(text) is None:
        return Reason.NEGATIVE if _negative.fullmatch(text) is not None else Reason.AMOUNT
    amount = int(text.partition(".")[0])
    return amount if amount <= max_amount else Reason.ABOVE


def fingerprint(person: str) -> bytes:
    """A digest of fixed size that stands for a person while a tick is open; the text itself is let go."""
    return blake2b(person.encode("utf-8", "surrogatepass"), digest_size=16).digest()
