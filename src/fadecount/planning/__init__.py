"""Planning: from the wanted losses and errors to the mechanism that gives them."""

from fadecount.planning.design import design
from fadecount.planning.options import Forecast, Option, person_losses
from fadecount.planning.plan import Plan, option_dict, plan, plan_json, save_plan
from fadecount.planning.request import Person, Request

__all__ = [
    "Forecast",
    "Option",
    "Person",
    "Plan",
    "Request",
    "design",
    "option_dict",
    "person_losses",
    "plan",
    "plan_json",
    "save_plan",
]
