"""The mechanism in a file: what ``to_json`` wrote, or a plan."""

from __future__ import annotations

from pathlib import Path

from fadecount.errors import ParameterError
from fadecount.mechanisms.base import Mechanism


def read_mechanism(path: str) -> Mechanism:
    """The mechanism in a JSON file, or a :class:`ParameterError` that says what is wrong with the file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ParameterError(f"plan must be a readable JSON file, got {path!r} ({reason}); check the path") from error
    return Mechanism.from_json(text)
