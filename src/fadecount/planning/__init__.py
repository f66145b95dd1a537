"""Planning: from the wanted losses and errors to the mechanism that gives them."""

from fadecount.planning.design import design
from fadecount.planning.plan import (
    Forecast,
    Option,
    Plan,
    plan,
    plan_json,
    save_plan,
)
from fadecount.planning.published import PublishedFigure, Width, person_losses
from fadecount.planning.request import Person, Request

__all__ = [
    "Forecast",
    "Option",
    "Person",
    "Plan",
    "PublishedFigure",
    "Request",
    "Width",
    "design",
    "person_losses",
    "plan",
    "plan_json",
    "save_plan",
]
