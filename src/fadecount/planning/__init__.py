"""Planning: from the wanted losses and errors to the mechanism that gives them."""

from fadecount.planning.design import design
from fadecount.planning.plan import (
    Forecast,
    Option,
    Plan,
    PublishedFigure,
    person_losses,
    plan,
    plan_json,
    published_figures,
    save_plan,
)
from fadecount.planning.request import Person, Request

__all__ = [
    "Forecast",
    "Option",
    "Person",
    "Plan",
    "PublishedFigure",
    "Request",
    "design",
    "person_losses",
    "plan",
    "plan_json",
    "published_figures",
    "save_plan",
]
