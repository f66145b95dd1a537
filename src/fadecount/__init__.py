"""fadecount: running counts with differential privacy that fades on a published schedule."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from fadecount import errors
from fadecount.counters import Counter
from fadecount.mechanisms import Binary, Designed, Gaussian, Gradual, Linear, Mechanism, Refresh, crossing_age, minimum_error

if TYPE_CHECKING:
    from fadecount.planning import Person, Plan, design, plan
    from fadecount.runs import count
    from fadecount.service.client import AsyncClient, Client

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Binary",
    "Client",
    "Counter",
    "Designed",
    "Gaussian",
    "Gradual",
    "Linear",
    "Mechanism",
    "Person",
    "Plan",
    "Refresh",
    "count",
    "crossing_age",
    "design",
    "errors",
    "minimum_error",
    "plan",
]

_LATER = {
    "count": "fadecount.runs",
    "AsyncClient": "fadecount.service.client",
    "Client": "fadecount.service.client",
    "Person": "fadecount.planning",
    "Plan": "fadecount.planning",
    "design": "fadecount.planning",
    "plan": "fadecount.planning",
}


def __getattr__(name: str) -> object:
    """Names whose rooms are imported when they are first used, so that `import fadecount` stays quick."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
