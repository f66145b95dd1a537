"""A plan as a file holds it, read once: runs, the service and Spark take it as a mechanism.

The JSON of a mechanism alone, as ``to_json`` writes it, is a plan that says nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fadecount.durations import format_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms.base import Mechanism
from fadecount.mechanisms.discovery import Discovery
from fadecount.mechanisms.unit import ONE_EVENT, Unit


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A mechanism, which knows the tick that it was planned for; its ``unit``, for which it is used
    unchanged (None: it states its loss for a change of one count by 1); and how keys appear by
    themselves (``discovery``), if they do.

    >>> import fadecount as fc
    >>> PlanFile.from_json(fc.Blocks(fc.Level(1, 0.5), planned_tick_seconds=60).to_json())
    PlanFile(mechanism=Blocks(Level(length=1, epsilon=0.5, lag=0, later=())), unit=None, \
discovery=None)
    """

    mechanism: Mechanism
    unit: Unit | None = None
    discovery: Discovery | None = None
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The JSON of the file."""

    @classmethod
    def read(cls, path: str) -> PlanFile:
        """The plan in a file."""
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            raise ParameterError(
                f"plan must be a readable JSON file, got {path!r} ({reason}); check the path"
            ) from error

    @classmethod
    def from_json(cls, text: str | bytes) -> PlanFile:
        """The plan in JSON text. Text that holds no mechanism is refused."""
        mechanism, fields = Mechanism.from_json(text), json.loads(text)
        unit, discovery = _asked(fields, "unit"), fields.get("discovery")
        planned = Unit.from_json(unit) if isinstance(unit, dict) else ONE_EVENT
        return cls(
            mechanism,
            unit=None if planned == ONE_EVENT else planned,
            discovery=None if discovery is None else Discovery.from_json(json.dumps(discovery)),
            fields=fields,
        )

    @classmethod
    def of(cls, given: object) -> PlanFile:
        """A plan as it is, or one that says no more than a mechanism."""
        if isinstance(given, PlanFile):
            return given
        if not isinstance(given, Mechanism):
            remedy = "such as fadecount.Gradual(epsilon=0.1), or the mechanism of a plan"
            raise bad_parameter("mechanism", given, "a fadecount mechanism", remedy)
        return cls(given)

    def mechanism_for(self, unit: Unit, tick_seconds: int) -> Mechanism:
        """The mechanism with which the plan's promise holds for a unit in ticks of this length; a
        unit or a tick that it was not planned for is refused."""
        require_planned_tick(self.mechanism, tick_seconds)
        return unit.scaled(self.mechanism, self.unit)

    def require_room(self, other: str | None) -> None:
        """Refuse to count hidden events under the key ``other`` too with a plan whose discovery may
        use all of every loss: both losses would add up to more than the plan promises."""
        share = _asked(self.fields, "discover")
        if other is not None and isinstance(share, list) and share[1:] == [1.0]:
            bound = "left out, as the plan's keys that appear use all of its loss"
            raise bad_parameter("other", other, bound, "plan again, such as with --discover 1d=0.5")


def _asked(fields: Mapping[str, Any], name: str) -> Any:
    """What a plan was asked for; None if it does not say it."""
    try:
        return fields["plan"]["request"].get(name)
    except (KeyError, TypeError, AttributeError):
        return None


def require_planned_tick(mechanism: Mechanism, tick_seconds: int) -> None:
    """Refuse steps of another length than the mechanism was planned for: its losses by hour and day
    would not hold.

    Twice as many steps a day make an event twice as old by evening, and what was promised for two
    days is lost in one.
    """
    planned = mechanism.planned_tick_seconds
    if planned is not None and planned != tick_seconds:
        made, given = format_duration(planned), format_duration(tick_seconds)
        raise ParameterError(
            f"tick must be {made}, for which the mechanism was planned, got {given}; plan again for"
            " that tick, or keep the plan's"
        )
