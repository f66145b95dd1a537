"""fadecount: running counts with differential privacy that fades on a published schedule.

A mechanism describes the noise and states its cost before anything runs. A counter runs it:

>>> import fadecount as fc
>>> mechanism = fc.Gradual(0.125)       # one step is one hour, say
>>> mechanism.loss(24)                  # privacy loss (epsilon) of one event after a day
0.625
>>> counter = fc.Counter(mechanism)
>>> published = counter.step(120)       # 120 events in this hour; the private running count

- choose: ``fc.plan``, ``fc.design`` (from wanted losses and errors), or ``fc.Gradual``,
  ``fc.Gaussian`` and the other mechanisms
- count: ``fc.Counter``, or ``fc.count`` for a data frame of events
- keep a count for years: ``fadecount.streams``; read files: ``fadecount.sources``; draw:
  ``fadecount.plots``
- ask a running service: ``fc.Client``; on Spark: ``fadecount.spark``

The command ``fadecount --help`` does the same without Python. ``help(fc.Gradual)`` and
docs/library.md have the details.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from fadecount import errors
from fadecount.counters import Counter
from fadecount.mechanisms import (
    Binary,
    Blocks,
    Designed,
    Gaussian,
    Gradual,
    Level,
    Linear,
    Mechanism,
    Refresh,
    crossing_age,
    minimum_error,
)

if TYPE_CHECKING:
    from fadecount.planning import Person, Plan, design, plan
    from fadecount.runs import count
    from fadecount.service.client import AsyncClient, Client

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Binary",
    "Blocks",
    "Client",
    "Counter",
    "Designed",
    "Gaussian",
    "Gradual",
    "Level",
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


_ROOMS = ("audit", "paper", "planning", "plots", "runs", "service", "sources", "spark", "streams")


def __getattr__(name: str) -> object:
    """Names whose rooms are imported when they are first used, so that `import fadecount` stays
    quick."""
    if name not in _LATER:
        hint = f"; import it first: import fadecount.{name}" if name in _ROOMS else ""
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}{hint}",
            name=name,
            obj=sys.modules[__name__],
        )
    globals()[name] = value = getattr(importlib.import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    """What a person may want to complete: the public names, and the rooms that are imported
    already."""
    return sorted(
        {*__all__, *(name for name in globals() if name in _ROOMS or name.startswith("__"))}
    )
