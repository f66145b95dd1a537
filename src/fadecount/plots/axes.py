"""Axes that people can read: ages in human time, losses in plain numbers."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

_HUMAN = (
    (1, "1 s"),
    (60, "1 min"),
    (3600, "1 hour"),
    (86400, "1 day"),
    (30 * 86400, "1 month"),
    (365 * 86400, "1 year"),
    (10 * 365 * 86400, "10 years"),
    (100 * 365 * 86400, "100 years"),
    (10**4 * 365 * 86400, "$10^4$ years"),
    (10**7 * 365 * 86400, "$10^7$ years"),
    (10**10 * 365 * 86400, "$10^{10}$ years"),
    (10**13 * 365 * 86400, "$10^{13}$ years"),
)
_LINEAR = 0.6  # decades of room for the step from age 0 to age 1
_APART = 0.12  # of the axis: nearer marks would run into each other


def age_axis(axes: Axes, oldest: int, tick_seconds: float | None, subject: str = "event") -> None:
    """A logarithmic axis that has room for age 0; with a tick length its marks are minutes, days and years."""
    axes.set_xscale("symlog", linthresh=1.0, linscale=_LINEAR)
    axes.set_xlim(-0.02, max(2.0, oldest * 1.15))
    marks = _human_marks(oldest, tick_seconds) if tick_seconds else _plain_marks(oldest)
    axes.xaxis.set_major_locator(FixedLocator([place for place, _ in marks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([place for place, _ in marks], [name for _, name in marks])
    axes.set_xlabel(f"age of the {subject}" if tick_seconds else f"age of the {subject} (steps)")


def loss_axis(axes: Axes, *, logarithmic: bool) -> None:
    """The axis of the privacy loss, in plain numbers."""
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        low, high = axes.get_ylim()
        if high < 200.0 * low:
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    else:
        axes.set_ylim(bottom=0.0)
    axes.set_ylabel("privacy loss (epsilon)")


def count_axis(axes: Axes, label: str) -> None:
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_ylabel(label)


def _plain_marks(oldest: int) -> list[tuple[float, str]]:
    powers = range(len(str(oldest * 115 // 100)))
    step = 1 + len(powers) // 10
    return [(0.0, "0"), *((10.0**power, _power(power)) for power in powers if power % step == 0)]


def _power(power: int) -> str:
    return f"{10**power:,}" if power <= 3 else f"$10^{{{power}}}$"


def _human_marks(oldest: int, tick_seconds: float) -> list[tuple[float, str]]:
    """The marks of human time within the axis, leaving out those too close to the one before."""
    width = math.log10(oldest + 1.0) + _LINEAR
    kept, last = [(0.0, "0")], 0.0
    for seconds, name in _HUMAN:
        age = seconds / tick_seconds
        if 1.0 <= age <= oldest * 1.15 and (place := math.log10(age) + _LINEAR) - last >= _APART * width:
            kept.append((age, name))
            last = place
    return kept
