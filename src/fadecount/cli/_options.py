"""Options that several commands share: how a mechanism is given."""

from __future__ import annotations

import argparse
import math
from typing import Any

from fadecount import Binary, Designed, Gradual, Linear, Mechanism, Refresh
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms import read_mechanism

_TAKES = {
    "gradual": ("epsilon", "exponent", "delay"),
    "linear": ("epsilon",),
    "refresh": ("window", "epsilon_current", "epsilon_past"),
    "binary": ("epsilon", "steps"),
    "designed": ("budgets", "delay"),
}
KINDS = tuple(_TAKES)
GIVEN = ("plan", "mechanism", *sorted({name for names in _TAKES.values() for name in names}))


def add_mechanism_options(parser: argparse.ArgumentParser) -> None:
    """``--plan FILE``, or a mechanism spelt out; :func:`mechanism_from` reads them."""
    group = parser.add_argument_group("mechanism", "a plan file, or a mechanism spelt out (default: gradual, exponent 1)")
    group.add_argument("--plan", metavar="FILE", help="mechanism from a JSON file")
    group.add_argument("--mechanism", choices=KINDS, help="which mechanism (default: gradual)")
    group.add_argument("--epsilon", type=float, metavar="E", help="loss at first sight (all of it for binary)")
    group.add_argument("--exponent", type=float, metavar="K", help="gradual: how fast the loss grows (default: 1)")
    group.add_argument("--delay", type=int, metavar="STEPS", help="gradual, designed: steps by which outputs lag")
    group.add_argument("--budgets", metavar="E0,E1,...", help="designed: level budgets; inf allowed, the last one continues")
    group.add_argument("--window", type=int, metavar="STEPS", help="refresh: steps between two refreshes")
    group.add_argument("--epsilon-current", type=float, metavar="E", help="refresh: budget of the running round")
    group.add_argument("--epsilon-past", type=float, metavar="E", help="refresh: budget for all earlier rounds")
    group.add_argument("--steps", type=int, metavar="N", help="binary: how many steps there will ever be")


def mechanism_from(arguments: argparse.Namespace, *, tick_seconds: int | None = None) -> Mechanism:
    """The mechanism that the options describe, for steps of this length if it is known.

    An option that the mechanism does not have is refused: whoever gave it expects another loss than would be.
    """
    kind = arguments.mechanism or "gradual"
    _check_given(arguments, kind)
    if arguments.plan:
        return read_mechanism(arguments.plan, tick_seconds=tick_seconds)
    delay = arguments.delay or 0
    if kind == "gradual":
        exponent = 1.0 if arguments.exponent is None else arguments.exponent
        return Gradual(epsilon=_needed(arguments, "epsilon"), exponent=exponent, delay=delay)
    if kind == "linear":
        return Linear(epsilon=_needed(arguments, "epsilon"))
    if kind == "binary":
        return Binary(epsilon=_needed(arguments, "epsilon"), horizon=_needed(arguments, "steps"))
    if kind == "refresh":
        return Refresh(
            window=_needed(arguments, "window"),
            epsilon_current=_needed(arguments, "epsilon_current"),
            epsilon_past=_needed(arguments, "epsilon_past"),
        )
    return Designed(budgets=_budgets(_needed(arguments, "budgets")), delay=delay)


def _check_given(arguments: argparse.Namespace, kind: str) -> None:
    takes, what = (("plan",), "a plan") if arguments.plan else (("mechanism", *_TAKES[kind]), kind)
    for name in GIVEN:
        if name not in takes and getattr(arguments, name) is not None:
            raise ParameterError(f"{_option(name)} is no option of {what}; leave it out, or see --help")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _needed(arguments: argparse.Namespace, name: str) -> Any:
    value = getattr(arguments, name)
    if value is None:
        kind = arguments.mechanism or "gradual"
        raise ParameterError(f"{_option(name)} must be given for {kind}; see --help, or give --plan FILE")
    return value


def _budgets(text: str | float) -> tuple[float, ...]:
    try:
        return tuple(math.inf if each.strip() == "inf" else float(each) for each in str(text).split(","))
    except ValueError:
        raise bad_parameter("--budgets", text, "numbers with commas between", "such as 0.1,0.1,0.05 or 0.1,inf") from None
