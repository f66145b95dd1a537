"""Planning: from the wanted losses and errors to the mechanism that gives them."""

from fadecount.planning.discovery import Appearance, appearances
from fadecount.planning.plan import (
    Option,
    Plan,
    design,
    plan,
    plan_json,
    save_plan,
)
from fadecount.planning.published import PublishedFigure, Width
from fadecount.planning.request import Person, Request

__all__ = [
    "Appearance",
    "Option",
    "Person",
    "Plan",
    "PublishedFigure",
    "Request",
    "Width",
    "appearances",
    "design",
    "plan",
    "plan_json",
    "save_plan",
]
