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
from fadecount.planning.request import Request

__all__ = [
    "Appearance",
    "Option",
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
