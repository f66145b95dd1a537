"""Planning: from the wanted losses and errors to the mechanism that gives them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fadecount.planning.discovery import Appearance as Appearance
    from fadecount.planning.discovery import appearances as appearances
    from fadecount.planning.plan import Option as Option
    from fadecount.planning.plan import Plan as Plan
    from fadecount.planning.plan import design as design
    from fadecount.planning.plan import plan_json as plan_json
    from fadecount.planning.plan import save_plan as save_plan
    from fadecount.planning.publication import Columns as Columns
    from fadecount.planning.publication import Input as Input
    from fadecount.planning.publication import Measure as Measure
    from fadecount.planning.publication import Publication as Publication
    from fadecount.planning.publication_plan import PublicationPlan as PublicationPlan
    from fadecount.planning.published import PublishedFigure as PublishedFigure
    from fadecount.planning.published import Width as Width
    from fadecount.planning.request import Request as Request

_HOMES = {
    **dict.fromkeys(("Appearance", "appearances"), "discovery"),
    **dict.fromkeys(("Option", "Plan", "design", "plan_json", "save_plan"), "plan"),
    **dict.fromkeys(("Columns", "Input", "Measure", "Publication"), "publication"),
    "PublicationPlan": "publication_plan",
    **dict.fromkeys(("PublishedFigure", "Width"), "published"),
    "Request": "request",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: a store needs few of them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
