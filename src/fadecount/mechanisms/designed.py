"""Level budgets chosen by the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self

from fadecount.checks import (
    LONGEST,
    planned_tick,
    require_budget,
    require_integer,
)
from fadecount.errors import bad_parameter
from fadecount.mechanisms.calibration import smallest_meeting
from fadecount.mechanisms.level_budgets import LevelMechanism
from fadecount.mechanisms.schedule import LEVELS


@dataclass(frozen=True, slots=True)
class Designed(LevelMechanism):
    """A running count with any level budgets: level ``l`` has noise of scale ``1 / budgets[l]``;
    the last one continues.

    ``math.inf`` is allowed: that level adds no noise, and the levels below pay for a shift of it.
    An infinite first budget leaves the first output without noise: its loss is infinite, and no
    counter runs it.

    Formal guarantee and proof as for ``Gradual``: the exact loss of docs/theory.md, section 4,
    holds for any budgets.

    >>> import fadecount as fc
    >>> fc.Designed(budgets=(0.5, 0.25)).loss(6)
    1.0
    """

    budgets: Sequence[float]
    _: KW_ONLY
    delay: int = 0
    planned_tick_seconds: float | None = field(default=None, compare=False, repr=False)
    kind: ClassVar[str] = "designed"
    _budget_fields: ClassVar[tuple[str, ...]] = ("budgets",)

    def __post_init__(self) -> None:
        remedy = "give one budget per level, lowest first; the last one continues upward"
        if isinstance(self.budgets, str | bytes) or not hasattr(self.budgets, "__iter__"):
            raise bad_parameter("budgets", self.budgets, "a sequence of numbers", remedy)
        budgets = tuple(
            require_budget(f"budgets[{at}]", each, infinite=True)
            for at, each in enumerate(self.budgets)
        )
        if not 1 <= len(budgets) <= LEVELS:
            raise bad_parameter("number of budgets", len(budgets), f"from 1 to {LEVELS}", remedy)
        object.__setattr__(self, "budgets", budgets)
        delay = require_integer(
            "delay", self.delay, minimum=0, maximum=LONGEST, remedy="0 means no delay"
        )
        object.__setattr__(self, "delay", delay)
        object.__setattr__(self, "planned_tick_seconds", planned_tick(self.planned_tick_seconds))

    @property
    def _delay(self) -> int:
        return self.delay

    def _level_budget(self, level: int) -> float:
        return self.budgets[min(level, len(self.budgets) - 1)]

    @classmethod
    def for_mse(
        cls,
        mse: float,
        *,
        horizon: int,
        budgets: Sequence[float] = (1.0,),
        delay: int = 0,
        resolution_bits: float = 0,
    ) -> Self:
        """The most private one whose budgets are in the given proportion and whose error over the
        horizon is at most ``mse``."""
        shape = cls(budgets=budgets, delay=delay).budgets

        def build(factor: float) -> Any:
            return cls(budgets=tuple(factor * each for each in shape), delay=delay)

        result: Self = smallest_meeting(build, mse, horizon, resolution_bits)
        return result
