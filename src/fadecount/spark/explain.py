"""What fadecount itself said, inside the long errors of Spark."""

from __future__ import annotations

import re

_OWN = re.compile(r"fadecount\.errors\.\w+: ([^\n]+)")


def explain(error: BaseException) -> str | None:
    """The one line of fadecount's own error inside an error of Spark, or None if there is none.

    >>> explain(RuntimeError("Traceback ...\\nfadecount.errors.InputError: key must not be null\\n at java.lang"))
    'key must not be null'
    """
    found = _OWN.findall(str(error))
    return found[-1].strip() if found else None
