"""Finds fadecount's own messages inside the long errors of Spark."""

from __future__ import annotations

import re

_OWN = re.compile(r"fadecount\.errors\.\w+: ([^\n]+)")


def explain(error: BaseException) -> str | None:
    """The one line of fadecount's own error inside an error of Spark, or None if there is none.

    >>> text = "Traceback ...\\nfadecount.errors.InputError: key must not be null\\n at java.lang"
    >>> explain(RuntimeError(text))
    'key must not be null'
    """
    found = _OWN.findall(str(error))
    return found[-1].strip() if found else None


def summary(error: BaseException) -> str:
    """One line of an error of Spark: the first that says what happened, not where it was called.

    >>> text = "An error occurred while calling o7.open.\\n: java.io.IOException: no disk\\n\\tat o"
    >>> summary(RuntimeError(text))
    'java.io.IOException: no disk'
    """
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    told = [
        line for line in lines if line and not line.startswith("An error occurred while calling")
    ]
    return told[0] if told else type(error).__name__
