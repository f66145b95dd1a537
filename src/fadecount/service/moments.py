"""What has been lost about an event at a given time: now, and as it gets older."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fadecount.durations import UNITS
from fadecount.service.explain import sentence
from fadecount.service.problems import bad_request
from fadecount.service.query import Query, tick_at
from fadecount.service.reading import Facts, Releases
from fadecount.shown import shown_loss, shown_sureness

_LATER = (("now", 0), ("in a day", UNITS["d"]), ("in a month", UNITS["mo"]), ("in a year", UNITS["y"]))


def moment_answer(releases: Releases, facts: Facts, query: Query, now: float) -> dict[str, Any]:
    """The body for ``?time=...`` and ``?time=...&at=...``."""
    moment, at = query.moment("time"), query.moment("at")
    if moment is None or "age" in query:
        raise bad_request("bad_query", "give age, or time, or time and at")
    tick = tick_at(facts.ticks, moment, "time")
    last = facts.last_tick if facts.last_tick is not None else tick - 1
    if at is None:
        views = [(words, max(0, facts.ticks.at(now + seconds) - 1 - last) if seconds else 0) for words, seconds in _LATER]
    else:
        views = [(f"at {_shown(at)}", tick_at(facts.ticks, at, "at") - 1 - last)]
    losses = [(words, releases.loss(facts.name, tick, ticks)) for words, ticks in views]
    subject = f"An event at {_shown(moment)}"
    return {
        "stream": facts.name,
        "time": _shown(moment),
        "losses": [
            {"when": words, "loss": loss, "shown": shown_loss(loss), "sure": shown_sureness(loss)} for words, loss in losses
        ],
        "sentence": " ".join(sentence(f"{subject}, {words}", loss) for words, loss in losses),
    }


def _shown(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
