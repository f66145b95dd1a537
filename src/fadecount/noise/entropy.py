"""Unpredictable bytes that are no noise: names nobody can guess, nonces, tokens. Here, so that entropy has one room."""

from __future__ import annotations

import os


def unpredictable(count: int) -> bytes:
    """``count`` bytes from the operating system, never the same twice."""
    return os.urandom(count)
