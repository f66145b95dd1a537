"""Someone who comes again and again: how often and how long as options, and what is lost about all
of it in words."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np

from fadecount.cli._ages import person_from, steps_from
from fadecount.durations import UNITS, format_duration
from fadecount.errors import bad_parameter
from fadecount.mechanisms import Gaussian, Loss, Mechanism
from fadecount.rounding import shown_chance, shown_factor, shown_loss
from fadecount.streams.forks import StreamLoss
from fadecount.streams.unit import ONE_EVENT, Unit

MOST_VISITS = 1_000_000
DEFAULT_SPAN = "30d"


def add_person_options(parser: Any, about: str) -> None:
    """``--person 1/day --for 30d``."""
    parser.add_argument(
        "--person", metavar="N/TIME", help=f"someone who comes so often, such as 1/day: {about}"
    )
    parser.add_argument(
        "--for",
        dest="span",
        metavar="LENGTH",
        default=DEFAULT_SPAN,
        help="with --person: for so long (30d)",
    )


def visits_from(often: str, span: str, tick: int) -> tuple[int, int, int]:
    """At most so many events, in every so many steps, for so many steps."""
    person = person_from(often, tick, name="--person")
    length = steps_from(span, tick, name="--for", minimum=1, rounding="up")
    assert person is not None
    every = 1 if person.per_step else person.steps or length
    if person.events * -(-length // every) > MOST_VISITS:
        raise bad_parameter(
            "--person",
            often,
            f"at most {MOST_VISITS:,} visits in all",
            "choose fewer, or a shorter --for",
        )
    return person.events, every, length


def someone(
    mechanism: Mechanism, arguments: argparse.Namespace, tick: int | None
) -> dict[str, Any]:
    """What is lost about someone with these visits, by the time of the last one and a year later.

    ``loss_now`` and ``loss_in_a_year`` hold wherever in the stream the visits are.
    ``loss_from_the_start`` is the exact loss (:meth:`~fadecount.Mechanism.loss_of`) if the stream
    began with the first one.
    """
    if tick is None:
        raise bad_parameter(
            "--person",
            arguments.person,
            "given with --tick",
            "visits are a matter of hours and days",
        )
    events, every, length = visits_from(arguments.person, arguments.span, tick)
    losses = losses_of(StreamLoss(mechanism=mechanism), events, every * tick, length * tick, tick)
    steps = range(1, length + 1, every)
    exact = mechanism.loss_of(np.repeat(steps, events), length)
    return {
        "person": arguments.person,
        "for": arguments.span,
        "visits": events * len(steps),
        **{name: loss.epsilon for name, loss in losses.items()},
        "loss_from_the_start": exact,
        "sentence": (
            someone_words(mechanism, arguments.person, length * tick, losses)
            + " If the stream begins with the first visit, the loss by now is exactly ε ="
            f" {shown_loss(exact)}, rounded up."
        ),
    }


def losses_of(
    stream: StreamLoss,
    visits: int,
    every: int,
    during: int,
    tick: int,
    unit: Unit = ONE_EVENT,
    due: int | None = None,
) -> dict[str, Loss]:
    """The loss of someone who came so often in every so many seconds, for so many seconds until
    now: by now, and in a year."""
    return {
        name: stream.of_person(
            visits, every=every, during=during, tick_seconds=tick, later=later, unit=unit, due=due
        )
        for name, later in (("loss_now", 0), ("loss_in_a_year", UNITS["y"]))
    }


def someone_words(
    mechanism: Mechanism, often: str, seconds: float, losses: Mapping[str, Loss]
) -> str:
    """Both losses with their subject, and what they mean for a guess: certainty, and odds."""
    sure_now, sure_later = (_sure(loss) for loss in losses.values())
    now, later = (loss.epsilon for loss in losses.values())
    fails = (
        f", except with a chance of {mechanism.delta:g}" if isinstance(mechanism, Gaussian) else ""
    )
    words = (
        f"Someone who came {often.strip()} for {format_duration(seconds)} until now: "
        f"at most ε = {shown_loss(now)} is lost by now, "
        f"at most ε = {shown_loss(later)} will be lost in a year{fails}. "
        f"A guess whether they came at all, even at first, becomes {sure_now} sure by now, "
        f"{sure_later} in a year"
    )
    if isinstance(mechanism, Gaussian):
        return f"{words}."
    return (
        f"{words}: its odds rise by a factor of at most {shown_factor(now)} by now,"
        f" {shown_factor(later)} in a year."
    )


def _sure(loss: Loss) -> str:
    shown = shown_chance(loss.certainty)
    return shown if shown.startswith("over") else f"at most {shown}"
