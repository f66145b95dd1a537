"""Plan files: the JSON of a mechanism, with what was asked and forecast beside it.

A plan file *is* the JSON of its mechanism, indented, with one more section named ``plan``; ``Mechanism.from_json`` reads it and
looks at the mechanism only. So a plan is accepted wherever a mechanism is, and nothing a person edits in the section
can change what runs.
"""

from __future__ import annotations

import json
from pathlib import Path

from fadecount.errors import ParameterError
from fadecount.planning.options import Option
from fadecount.planning.plan import Plan, plan_dict

PLAN_VERSION = 1


def plan_json(made: Plan, chosen: Option | None = None) -> str:
    """The text of a plan file for an option, by default the best."""
    option = made.best if chosen is None else chosen
    mechanism = json.loads(option.mechanism.to_json())
    return (
        json.dumps({**mechanism, "plan": {"version": PLAN_VERSION, **plan_dict(made, option)}}, indent=2, allow_nan=False) + "\n"
    )


def save_plan(path: str | Path, made: Plan, chosen: Option | None = None, *, force: bool = False) -> None:
    """Write a plan file. An existing file is refused unless ``force`` is given: a running counter may depend on it."""
    try:
        with Path(path).open("w" if force else "x", encoding="utf-8") as file:
            file.write(plan_json(made, chosen))
    except FileExistsError:
        raise ParameterError(
            f"save must be a new file, got {str(path)!r}; choose another name, or overwrite it with force (--force)"
        ) from None
    except OSError as error:
        raise ParameterError(f"save must be a writable file, got {str(path)!r} ({error.strerror}); check the path") from error
