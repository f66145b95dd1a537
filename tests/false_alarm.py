"""How often the statistical tests of the whole suite may fail although nothing is wrong.

Each statistical decision uses ``EACH``; there are fewer than ``DECISIONS`` of them, so a run of the
suite raises a false alarm with probability at most ``TOTAL``. A test that fails prints what it saw
beside ``EACH``.
"""

from __future__ import annotations

TOTAL = 1e-6
DECISIONS = 1000
EACH = TOTAL / DECISIONS


def explained(what: str, chance: float) -> str:
    return (
        f"{what}: p = {chance:.3g}; a right program falls below {EACH:.0e} with that probability"
        f" (whole suite: {TOTAL:.0e})"
    )
