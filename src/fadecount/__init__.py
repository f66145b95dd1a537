"""fadecount: running counts with differential privacy that fades on a published schedule.

A mechanism describes the noise and states its cost before anything runs. A counter runs it:

>>> import fadecount as fc
>>> mechanism = fc.Gradual(0.125)       # one step is one hour, say
>>> mechanism.loss(24)                  # privacy loss (epsilon) of one event after a day
0.625
>>> counter = fc.Counter(mechanism)
>>> published = counter.step(120)       # 120 events in this hour; the private running count

- publish: ``fc.Publication``, several measures of one crowd with one promise
- choose: ``fc.plan``, ``fc.design`` (from wanted losses and errors), or ``fc.Gradual`` and the
  other mechanisms
- count: ``fc.Counter``, or ``fc.count`` for a data frame of events
- keep a count for years: ``fadecount.streams``; read files: ``fadecount.sources``; draw:
  ``fadecount.plots``
- ask a running service: ``fc.Client``; on Spark: ``fadecount.spark``

The command ``fadecount --help`` does the same without Python. ``help(fc.Gradual)`` and
docs/library.md have the details.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as in typing, whose import would take half of the time of this one
if TYPE_CHECKING:
    from fadecount import errors
    from fadecount.counters import Counter
    from fadecount.mechanisms import (
        Binary,
        Blocks,
        Discovery,
        Gradual,
        Intervals,
        Level,
        Linear,
        Mechanism,
        Refresh,
        Totals,
        Unit,
        crossing_age,
        minimum_error,
    )
    from fadecount.planning.plan import Plan, design, plan
    from fadecount.planning.publication import Measure, Publication
    from fadecount.runs import count
    from fadecount.service.client import Client

__version__ = "0.1.0"

__all__ = [
    "Binary",
    "Blocks",
    "Client",
    "Counter",
    "Discovery",
    "Gradual",
    "Intervals",
    "Level",
    "Linear",
    "Measure",
    "Mechanism",
    "Plan",
    "Publication",
    "Refresh",
    "Totals",
    "Unit",
    "count",
    "crossing_age",
    "design",
    "errors",
    "minimum_error",
    "plan",
]

_HOMES = {
    "Client": "service.client",
    "Counter": "counters",
    "Measure": "planning.publication",
    "Plan": "planning.plan",
    "Publication": "planning.publication",
    "count": "runs",
    "design": "planning.plan",
    "plan": "planning.plan",
}
"""Where a name is defined, if not in ``fadecount.mechanisms``."""
_ROOMS = ("audit", "paper", "planning", "plots", "runs", "service", "sources", "spark", "streams")


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that ``import fadecount`` stays quick."""
    if name == "errors":
        return importlib.import_module("fadecount.errors")
    if name not in __all__:
        hint = f"; import it first: import fadecount.{name}" if name in _ROOMS else ""
        message = f"module {__name__!r} has no attribute {name!r}{hint}"
        raise AttributeError(message, name=name, obj=importlib.import_module(__name__))
    home = importlib.import_module(f"fadecount.{_HOMES.get(name, 'mechanisms')}")
    globals()[name] = value = getattr(home, name)
    return value


def __dir__() -> list[str]:
    """Return the public names, and the rooms that are imported already."""
    return sorted(
        {*__all__, *(name for name in globals() if name in _ROOMS or name.startswith("__"))}
    )
