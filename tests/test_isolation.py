"""The tests take nothing from the machine and leave nothing to each other."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.conftest import HOME, loop_left_running


def test_home_is_in_the_checkout() -> None:
    assert Path.home() == HOME
    assert Path("~").expanduser().is_relative_to(Path(__file__).parent.parent)


def test_a_running_loop_is_noticed() -> None:
    async def inside() -> bool:
        return loop_left_running()

    assert asyncio.run(inside())
    assert not loop_left_running()
