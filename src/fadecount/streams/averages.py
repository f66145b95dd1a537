"""Means: the sums of one stream divided by the counts of another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.errors import bad_parameter
from fadecount.streams.published import BETA, Figures, Published


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Means:
    """Means of slots of time, in the shape (slots, keys), with their 95 % intervals. ``figures``
    are those of the events: their slots, status, and where ``known`` is false."""

    figures: Figures
    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def means(sums: Published, counts: Published, per: str, **range_: Any) -> Means:
    """The mean amount of each slot and key. ``sums`` adds up the amounts of events, ``counts``
    counts the same events under the same keys; ``range_`` is that of :meth:`Published.figures`.

    The interval holds the true mean of the events that count with at least 95 %. The two counts lie
    in their own intervals of 97.5 %, so both do with 95 %. In that rectangle the mean is smallest
    where the sum is smallest and the number largest, and largest at the opposite corner. Amounts
    are from 0 to that of the unit, so the mean is too; and there is a mean only if there is an
    event.

    Where even the upper end of the number of events is below 1, or that of the sum below 0, nothing
    is known: from 0 to the unit's amount.
    """
    if sums.keys != counts.keys:
        remedy = "count the same events under the same keys"
        raise bad_parameter(
            "counts", counts.description.name, "a stream with the same keys", remedy
        )
    total, number = (replace(each, beta=BETA / 2).figures(per, **range_) for each in (sums, counts))
    if not np.array_equal([total.starts, total.ends], [number.starts, number.ends]):
        remedy = "let both begin, and be released, together"
        raise bad_parameter(
            "counts", counts.description.name, "a stream with the same slots", remedy
        )
    most = float(sums.description.unit.amount)
    low = np.maximum(total.low, 0) / np.maximum(number.high, 1)
    high = total.high / np.maximum(number.low, 1)
    low, high = np.minimum(low, most), np.minimum(high, most)
    unknown = (number.high < 1) | (total.high < 0)
    low[unknown], high[unknown] = 0.0, most
    values = np.clip(total.values / np.maximum(number.values, 1), low, high)
    return Means(figures=number, values=values, low=low, high=high)
