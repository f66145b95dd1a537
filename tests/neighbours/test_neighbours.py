"""One event moves nothing else: pairs of inputs that differ by one protected unit, through every
intake, with noise of zero."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fadecount.mechanisms import Unit
from tests.neighbours import live
from tests.neighbours.harness import Published, Row, Scene, violations
from tests.neighbours.intakes import INTAKES
from tests.neighbours.scenes import BEGIN
from tests.neighbours.silence import silence

PAIRS = {"service": 30, "website": 10, "hidden keys": 10, "days": 10}
SEVERAL = 10
NOT_YET: set[str] = set()
"""Intakes that are known to violate; ``make neighbours`` shows how."""


@pytest.mark.parametrize("name", [name for name in INTAKES if name not in NOT_YET])
def test_one_unit_moves_nothing_else(name: str, tmp_path: Path) -> None:
    """Seeds are drawn by hypothesis; a failure names the seed, with which the pair can be made
    again."""

    @settings(
        max_examples=PAIRS.get(name, 20) // SEVERAL,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(first=st.integers(0, 10**9))
    def holds(first: int) -> None:
        folder = tmp_path / str(first)
        shutil.rmtree(folder, ignore_errors=True)
        with silence():
            for verdict in INTAKES[name](range(first, first + SEVERAL), folder):
                assert not verdict.violations, f"{name}, seed {verdict.seed}: {verdict.violations}"
                counted.append(verdict.counted)

    counted: list[bool] = []
    holds()
    assert any(counted), "no unit of any pair was counted: the pairs show nothing"


@pytest.mark.parametrize("kind", live.KINDS)
def test_what_arrived_is_kept_before_its_tick_is_open(kind: str, tmp_path: Path) -> None:
    """A grace of three ticks: the row waits while older ticks are open, and the process is killed
    meanwhile."""
    first = BEGIN // 5
    row = Row(time=str(BEGIN + 12), key="a", arrival=BEGIN + 12.5)
    scene = Scene(
        seed=0,
        tick_seconds=5,
        first=first,
        end=first + 4,
        graces=(15, 15),
        cuts=(first + 3,),
        downtimes=(0.0,),
        rows=(row,),
    )
    with silence():
        found = live.publish(kind, scene, tmp_path / "one")
    assert list(found.values.values()) == [(0,), (0,), (1,), (1,)]


def test_a_followed_file_that_holds_its_header_alone_has_no_backlog(tmp_path: Path) -> None:
    """A row that arrives just as an overdue tick is published after a restart must not put that off
    by a second."""
    with silence():
        (verdict,) = INTAKES["follow csv"]([1427], tmp_path)
    assert not verdict.violations and verdict.counted


BEFORE = Published(
    keys=("a", "b"), values={5: (0, 0), 6: (1, 0), 7: (2, 2)}, moments=(5, 6, 7), messages=(0,)
)


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        (
            Published(
                keys=("a", "b"),
                values={5: (0, 0), 6: (1, 0), 7: (2, 3)},
                moments=(5, 6, 7),
                messages=(0,),
            ),
            None,
        ),
        (
            Published(
                keys=("a", "b"),
                values={5: (0, 0), 6: (0, 0), 7: (1, 2)},
                moments=(5, 6, 7),
                messages=(0,),
            ),
            None,
        ),
        (
            Published(
                keys=("a", "b"),
                values={5: (0, 0), 6: (2, 0), 7: (2, 2)},
                moments=(5, 6, 7),
                messages=(0,),
            ),
            "moves",
        ),
        (
            Published(
                keys=("a", "b"),
                values={5: (0, 0), 6: (1, 0), 7: (3, 3)},
                moments=(5, 6, 7),
                messages=(0,),
            ),
            "above one event",
        ),
        (
            Published(
                keys=("a", "b"),
                values={5: (0, 0), 6: (1, 0), 7: (4, 2)},
                moments=(5, 6, 7),
                messages=(0,),
            ),
            "above one event",
        ),
        (
            Published(
                keys=("a", "b"), values={5: (0, 0), 6: (1, 0)}, moments=(5, 6, 7), messages=(0,)
            ),
            "range",
        ),
        (Published(keys=("a",), values=BEFORE.values, moments=(5, 6, 7), messages=(0,)), "keys"),
        (
            Published(keys=("a", "b"), values=BEFORE.values, moments=(6, 7), messages=(0,)),
            "moments",
        ),
        (
            Published(keys=("a", "b"), values=BEFORE.values, moments=(5, 6, 7), messages=(1,)),
            "messages",
        ),
    ],
)
def test_the_comparison_finds_what_differs_by_more_than_a_unit(
    after: Published, wrong: str | None
) -> None:
    found = violations(BEFORE, after)
    assert not found if wrong is None else any(wrong in each for each in found)
    assert bool(violations(after, BEFORE)) == bool(found)


def test_a_difference_over_several_keys_is_found_whatever_its_sum() -> None:
    after = Published(
        keys=("a", "b"), values={5: (0, 0), 6: (2, 1), 7: (3, 3)}, moments=(5, 6, 7), messages=(0,)
    )
    assert violations(BEFORE, after, unit=Unit(amount=2))
    assert not violations(BEFORE, after, unit=Unit(of="person", events=2))
    assert not violations(BEFORE, after, unit=Unit(of="person", keys=2))
    wide = Published(
        keys=("a", "b"), values={5: (0, 0), 6: (1, 0), 7: (5, 2)}, moments=(5, 6, 7), messages=(0,)
    )
    assert not violations(BEFORE, wide, unit=Unit(of="person", events=3))
    assert violations(BEFORE, wide, unit=Unit(of="person", events=2, keys=2)), (
        "4 in all may differ, but 2 in each key"
    )


WHOLE: dict[tuple[int, int, int, int], tuple[int, ...]] = {
    (0, 0, 0, 1): (1,),
    (0, 0, 1, 2): (2,),
    (0, 0, 2, 3): (0,),
    (0, 0, 3, 4): (4,),
    (1, 0, 0, 2): (3,),
    (1, 0, 2, 4): (4,),
    (1, 1, 0, 2): (3,),
}
"""Two blocks of two ticks each, one of them at a later stage too."""


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, None),
        ({(0, 0, 0, 1): (2,), (1, 0, 0, 2): (4,), (1, 1, 0, 2): (4,)}, None),
        ({(0, 0, 0, 1): (2,)}, "do not add up"),
        ({(0, 0, 0, 1): (2,), (1, 0, 0, 2): (4,)}, "do not add up"),
        ({(0, 0, 0, 1): (0,), (0, 0, 1, 2): (3,)}, "level 0 moves by"),
        ({(0, 0, 0, 1): (3,), (1, 0, 0, 2): (5,), (1, 1, 0, 2): (5,)}, "above one event"),
        ({(1, 1, 2, 4): (4,)}, "blocks: "),
    ],
)
def test_the_harness_knows_what_may_move_in_figures(
    changes: dict[tuple[int, int, int, int], tuple[int, ...]], wrong: str | None
) -> None:
    before, after = (
        Published(keys=("a",), values={}, figures=figures) for figures in (WHOLE, WHOLE | changes)
    )
    found = violations(before, after)
    assert not found if wrong is None else any(wrong in each for each in found), found
