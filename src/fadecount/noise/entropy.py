"""Unpredictable bytes that are not noise: unguessable names, nonces, tokens. Here, so that one
package uses entropy."""

from __future__ import annotations

import os


def unpredictable(count: int) -> bytes:
    """``count`` bytes from the operating system, never the same twice."""
    return os.urandom(count)
