"""Inputs as exact integers, and their sums, within a bound that leaves room in int64 for noise."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.errors import InputError, SumOverflowError

LARGEST_SUM = 1 << 62
"""The largest sum of whole numbers. It leaves room in int64 for noise."""
_WIDE = 1 << 8


def one_step(item: Any, width: int | None) -> Any:
    """The input of one step as an int (``width`` None) or as an int64 array over the counts."""
    array = _as_array(item)
    wanted = () if width is None else (width,)
    if array.shape != wanted:
        raise InputError(
            f"input must have the shape {wanted}, got {array.shape}; use extend for many steps"
        )
    numbers = _integers(array.reshape(1, -1))[0]
    # A copy: a delay may keep it while callers reuse theirs.
    return int(numbers[0]) if width is None else numbers.copy()


def many_steps(items: Any, width: int | None) -> NDArray[np.int64]:
    """The inputs of many steps as an int64 array of the shape (steps, counts)."""
    array = _as_array(items)
    counts = () if width is None else (width,)
    if (array.shape[1:] != counts or not array.ndim) and array.shape != (0,):
        wanted = "(steps,)" if width is None else f"(steps, {width})"
        raise InputError(
            f"input must have the shape {wanted}, got {array.shape}; give one number per step"
            " and count"
        )
    rows = array.reshape(len(array), width or 1)
    return _integers(rows) if rows.size else np.empty(rows.shape, dtype=np.int64)


def running_sums(
    rows: NDArray[np.int64], out: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The sums of the first rows, up to each of them; ``out`` may be ``rows``."""
    if rows.shape[1] < _WIDE:
        return np.cumsum(rows, axis=0, out=out)
    if out is None:
        out = np.empty_like(rows)
    if out is not rows:
        out[:1] = rows[:1]
    for before, row, target in zip(out, rows[1:], out[1:], strict=False):
        np.add(before, row, out=target)  # while the last one is still in cache
    return out


def max_abs(numbers: Any) -> int:
    """Returns the largest absolute value, as an int that cannot wrap."""
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))


def require_exact(total: Any, items: NDArray[np.int64]) -> None:
    """Refuse inputs whose running sums, added to a total, leave the exact range."""
    if max_abs(np.asarray(total)) + len(items) * max_abs(items) > LARGEST_SUM:
        exact = np.cumsum(items.astype(object), axis=0) + np.asarray(total).astype(object)
        if np.any(np.abs(exact) > LARGEST_SUM):
            raise sum_too_large()


def add_up(sums: NDArray[np.int64], places: Any, counts: NDArray[np.int64]) -> None:
    """Add counts from 0 on to the sums at these places (an index of ``sums``), each sum up to
    ``LARGEST_SUM`` + 1: a counter then refuses it. Nothing wraps."""
    most = LARGEST_SUM + 1
    if isinstance(places, slice):  # two of them do not wrap in uint64
        whole = sums[places].view(np.uint64)
        whole += counts.view(np.uint64)
        np.minimum(whole, most, out=whole)
        return
    rough = sums.astype(np.float64)
    np.add.at(rough, places, counts.astype(np.float64))
    np.add.at(sums, places, counts)  # may wrap where the rough sum is too large
    sums[:] = np.where(rough < 1.5 * most, np.minimum(sums, most), most)


def _as_array(items: Any) -> NDArray[Any]:
    """The items as a NumPy array; rows of different lengths, and booleans among numbers, are
    refused."""
    try:
        array = np.asarray(items)
    except ValueError:
        raise InputError(
            "input must be an array of numbers, got rows of different lengths; give one number per"
            " count"
        ) from None
    if _holds_bool(items):
        raise InputError("input must hold numbers, got a boolean among them; give 0 or 1")
    return array


def _holds_bool(items: Any) -> bool:
    """Whether a (nested) list holds a boolean, which NumPy would take for 0 or 1."""
    if not isinstance(items, list | tuple):
        return False
    kinds = set(map(type, items))
    if bool in kinds or np.bool in kinds:
        return True
    return not kinds.isdisjoint((list, tuple)) and any(_holds_bool(each) for each in items)


def _integers(array: NDArray[Any]) -> NDArray[np.int64]:
    if array.dtype == object:
        array = _from_objects(array)
    if array.dtype.kind not in "iu":
        raise InputError(
            f"input must be an integer, got {array.dtype.name}; count events, or scale and round"
        )
    if int(array.max()) > LARGEST_SUM or int(array.min()) < -LARGEST_SUM:
        raise _too_large()
    return array.astype(np.int64, copy=False)


def _from_objects(array: NDArray[Any]) -> NDArray[np.int64]:
    """Python integers that NumPy did not take as one type; too large ones are refused, booleans
    too."""
    try:
        plain = [
            operator.index(each) for each in array.flat if not isinstance(each, bool | np.bool)
        ]
    except TypeError:
        plain = []
    if len(plain) != array.size:
        raise InputError("input must be an integer, got other objects; count events")
    if max(plain) > LARGEST_SUM or min(plain) < -LARGEST_SUM:
        raise _too_large()
    return np.array(plain, dtype=np.int64).reshape(array.shape)


def _too_large() -> InputError:
    return InputError("input must be an integer within +-2**62; split it over several steps")


def sum_too_large() -> SumOverflowError:
    return SumOverflowError("sum would pass +-2**62 and lose exactness; start a new counter")
