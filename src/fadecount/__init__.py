"""fadecount: running counts with differential privacy that fades on a published schedule."""

from fadecount import errors
from fadecount.counters import Counter
from fadecount.mechanisms import Binary, Designed, Gradual, Linear, Mechanism, Refresh, crossing_age, minimum_error
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
