"""fadecount: running counts with differential privacy that fades on a published schedule."""

from typing import TYPE_CHECKING, Any

from fadecount import errors
from fadecount.counters import Counter
from fadecount.mechanisms import Binary, Designed, Gradual, Linear, Mechanism, Refresh, crossing_age, minimum_error

if TYPE_CHECKING:
    from fadecount.planning import Person, Plan, design, plan

__version__ = "0.1.0"

__all__ = [
    "Binary",
    "Counter",
    "Designed",
    "Gradual",
    "Linear",
    "Mechanism",
    "Person",
    "Plan",
    "Refresh",
    "crossing_age",
    "design",
    "errors",
    "minimum_error",
    "plan",
]


def __getattr__(name: str) -> Any:
    """Planning is loaded when it is first asked for: whoever only counts does not wait for it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fadecount import planning

    globals()[name] = value = getattr(planning, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
