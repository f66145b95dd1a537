"""What is released and what it costs: frozen descriptions, without state or entropy."""

from fadecount.checks import LONGEST
from fadecount.mechanisms.base import Mechanism
from fadecount.mechanisms.binary_tree import Binary, Refresh
from fadecount.mechanisms.blocks import Blocks
from fadecount.mechanisms.comparison import crossing_age, minimum_error
from fadecount.mechanisms.discovery import Discovery
from fadecount.mechanisms.figures import (
    Figure,
    Figures,
    ListedFigures,
)
from fadecount.mechanisms.intervals import Intervals, IntervalSchedule
from fadecount.mechanisms.level_budgets import Gradual, Linear
from fadecount.mechanisms.levels import Level, Stage
from fadecount.mechanisms.loss import Loss
from fadecount.mechanisms.noise_distribution import scale_of
from fadecount.mechanisms.plan_file import PlanFile, require_planned_tick
from fadecount.mechanisms.running_total import CARRY, RunningTotal, Schedule
from fadecount.mechanisms.totals import Totals
from fadecount.mechanisms.unit import ONE_EVENT, Unit
from fadecount.mechanisms.views import View, Views, views_of

__all__ = [
    "CARRY",
    "LONGEST",
    "ONE_EVENT",
    "Binary",
    "Blocks",
    "Calendar",
    "Discovery",
    "Figure",
    "Figures",
    "Gradual",
    "IntervalSchedule",
    "Intervals",
    "Level",
    "Linear",
    "ListedFigures",
    "Loss",
    "Mechanism",
    "PlanFile",
    "Refresh",
    "RunningTotal",
    "Schedule",
    "Stage",
    "Totals",
    "Unit",
    "View",
    "Views",
    "crossing_age",
    "minimum_error",
    "require_planned_tick",
    "scale_of",
    "views_of",
]
