"""A running total with any level budgets, for tests of what holds for all of them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

from fadecount.checks import require_budget, set_fields
from fadecount.errors import bad_parameter
from fadecount.mechanisms.base import require_delay, require_sequence
from fadecount.mechanisms.level_budgets import LevelMechanism
from fadecount.mechanisms.running_total import LEVELS


@dataclass(frozen=True, slots=True)
class AnyLevels(LevelMechanism):
    """Level ``l`` has noise of scale ``1 / budgets[l]``; the last one continues. ``math.inf`` is
    allowed: that level adds no noise."""

    budgets: Sequence[float]
    _: KW_ONLY
    delay: int = 0
    kind: ClassVar[str] = "any levels"

    def __post_init__(self) -> None:
        remedy = "give one budget per level, lowest first; the last one continues upward"
        budgets = tuple(
            each
            if isinstance(each, float) and each == math.inf
            else require_budget(f"budgets[{at}]", each)
            for at, each in enumerate(require_sequence("budgets", self.budgets, remedy))
        )
        if not 1 <= len(budgets) <= LEVELS:
            raise bad_parameter("number of budgets", len(budgets), f"from 1 to {LEVELS}", remedy)
        set_fields(self, budgets=budgets, delay=require_delay(self.delay))

    def _level_budget(self, level: int) -> float:
        return self.budgets[min(level, len(self.budgets) - 1)]

    def scaled(self, factor: float) -> Self:
        return type(self)(tuple(factor * each for each in self.budgets), delay=self.delay)

    def to_json(self) -> str:
        fields = {"budgets": [str(each) for each in self.budgets], "delay": self.delay}
        return json.dumps({"fadecount": "mechanism", "version": 1, "kind": self.kind, **fields})

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls([float(each) for each in fields.pop("budgets")], **fields)
