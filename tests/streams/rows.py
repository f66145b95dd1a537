"""Rows of a source as a live run counts them: single events, cut to the amount of the unit."""

from __future__ import annotations

from collections.abc import Sequence

from fadecount.mechanisms.unit import Key
from fadecount.streams.inputs import Events, Intake, ReadPosition


def add_rows(
    intake: Intake,
    keys: Sequence[Key],
    amounts: Sequence[int],
    persons: Sequence[str | bytes] | None = None,
    *,
    position: ReadPosition | None = None,
) -> int:
    """Count a row for each key; how many count."""
    hashes = [b""] * len(keys) if persons is None else intake.hashes(persons)
    most = intake.description.unit.amount
    entries = [
        (key, 1, min(amount, most), who)
        for key, amount, who in zip(keys, amounts, hashes, strict=True)
    ]
    return intake.accept([Events(entries)], position=position).counted
