"""Counts that are handed in as rows, one per tick: checked, and cut into the ticks that are closed together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fadecount.errors import InputError


def check_inputs(inputs: NDArray[np.int64], width: int) -> None:
    if inputs.ndim != 2 or inputs.shape[1] != width or inputs.dtype != np.int64:
        raise InputError(f"inputs must be int64 of the shape (ticks, {width}); one column per declared key")
    if inputs.size and int(inputs.min()) < 0:
        raise InputError("counts must not be negative")


def rows_from(inputs: NDArray[np.int64], first: int, begin: int, shape: tuple[int, int]) -> NDArray[np.int64]:
    """The rows of ``shape[0]`` ticks from ``begin`` on, where ``inputs`` holds those from ``first`` on; all others are empty."""
    rows = np.zeros(shape, dtype=np.int64)
    low, high = max(begin, first), min(begin + shape[0], first + len(inputs))
    if low < high:
        rows[low - begin : high - begin] = inputs[low - first : high - first]
    return rows
