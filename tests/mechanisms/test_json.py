"""Mechanisms as text: what from_json refuses, with one clear line."""

from __future__ import annotations

import json
from typing import Any

import pytest

import fadecount as fc
from tests.mechanisms.test_every_mechanism import one_line

GOOD: dict[str, Any] = json.loads(fc.Gradual(epsilon=0.5).to_json())


def changed(**changes: Any) -> str:
    return json.dumps({**GOOD, **changes})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "7",
        "null",
        "not json",
        b"\xff\xfe\x00",
        "[" * 10**5,
        None,
        changed(fadecount="counter"),
        changed(version="1"),
        changed(version=True),
        changed(version=0),
        changed(version=2),
        changed(kind="magic"),
        changed(kind=["gradual"]),
        changed(epsilon="inf"),
        changed(epsilon=[0.5]),
        changed(epsilon=None),
        changed(epsilon=-1),
        changed(surplus=1),
        json.dumps({name: value for name, value in GOOD.items() if name != "epsilon"}),
    ],
    ids=lambda text: str(text)[:40],
)
def test_anything_else_is_refused(text: Any) -> None:
    with pytest.raises(fc.errors.ParameterError) as refused:
        fc.Mechanism.from_json(text)
    assert one_line(refused.value) or "does not fit" in str(refused.value)
