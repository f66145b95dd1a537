"""A mechanism in a notebook: its parameters and its loss curve, as HTML with an inline SVG
picture."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

import numpy as np

from fadecount.durations import format_duration
from fadecount.rounding import short_loss

if TYPE_CHECKING:
    from fadecount.mechanisms.base import Mechanism

OLDEST = 10**6
"""The oldest age that is drawn, in steps, unless the mechanism ends earlier."""
_PER_OCTAVE = 8
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 472.0, 200.0, 60.0, 24.0, 14.0, 36.0


def loss_picture(mechanism: Mechanism) -> str:
    """The mechanism as a piece of HTML. Every loss in it is rounded up.

    >>> import fadecount as fc
    >>> page = loss_picture(fc.Gradual(0.1))
    >>> page.startswith("<figure"), "privacy loss (\u03b5)" in page, "0.1000" in page
    (True, True, True)
    """
    horizon: int | None = getattr(mechanism, "horizon", None)
    oldest = OLDEST if horizon is None else horizon - 1
    ages = _ages(oldest)
    losses = [float(loss) for loss in np.asarray(mechanism.loss(ages))]
    named = [age for age in (0, *(10**power for power in range(7))) if age <= oldest]
    cells = [(_age_text(age, mechanism.planned_tick_seconds), mechanism.loss(age)) for age in named]
    rows = "".join(f"<tr><td>{age}</td><td>{short_loss(loss)}</td></tr>" for age, loss in cells)
    head = "<tr><th>age of an event</th><th>privacy loss (ε), at most</th></tr>"
    return (
        f"<figure><figcaption><code>{html.escape(repr(mechanism))}</code></figcaption>"
        f"{_svg(ages, losses, named)}"
        f"<table><thead>{head}</thead><tbody>{rows}</tbody></table></figure>"
    )


def _ages(oldest: int) -> list[int]:
    """Enough ages for a smooth line on a logarithmic axis, with both sides of every jump at a power
    of two."""
    grown = {
        math.floor(2.0 ** (place / _PER_OCTAVE))
        for place in range(_PER_OCTAVE * oldest.bit_length() + 1)
    }
    jumps = {
        (1 << octave) - 1 + side for octave in range(oldest.bit_length() + 1) for side in (-1, 0)
    }
    return sorted(age for age in {0, oldest, *grown, *jumps} if 0 <= age <= oldest)


def _age_text(age: int, tick_seconds: float | None) -> str:
    if age == 0:
        return "0 (at once)"
    steps = f"{age:,} step{'s' if age > 1 else ''}"
    if tick_seconds is None:
        return steps
    return f"{steps} ({format_duration(max(1, round(age * tick_seconds)))})"


def _svg(ages: list[int], losses: list[float], named: list[int]) -> str:
    finite = [(age, loss) for age, loss in zip(ages, losses, strict=True) if math.isfinite(loss)]
    top = max([loss for _, loss in finite], default=0.0)
    first, last = short_loss(losses[0]), short_loss(losses[-1])
    label = (
        f"Privacy loss of one event by its age: at most {first} at once, {last} at {ages[-1]:,}"
        " steps"
    )
    right, base = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def across(age: int) -> float:
        return _LEFT + (right - _LEFT) * math.log2(age + 1.0) / math.log2(max(ages[-1], 1) + 1.0)

    def up(loss: float) -> float:
        return base - (base - _TOP) * loss / (top or 1.0)

    path = "M" + "L".join(f"{across(age):.1f} {up(loss):.1f}" for age, loss in finite)
    names = [f"{age:,}" if age < 1000 else f"10^{len(str(age)) - 1}" for age in named]
    marks = "".join(
        _text(across(age), base + 15.0, name, "middle")
        for age, name in zip(named, names, strict=True)
    )
    levels = "".join(
        _text(_LEFT - 6.0, up(loss) + 4.0, short_loss(loss), "end")
        for loss in ({0.0, top} if finite else set())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}"'
        f' width="{_WIDTH:g}" role="img"'
        f' aria-label="{html.escape(label)}" font-family="sans-serif" font-size="11"'
        ' fill="currentColor">'
        f"<title>{html.escape(label)}</title>"
        f'<path d="M{_LEFT:g} {_TOP:g}V{base:g}H{right:g}" fill="none" stroke="currentColor"'
        ' opacity="0.5"/>'
        f'<path d="{path}" fill="none" stroke="#0072B2" stroke-width="2"/>{marks}{levels}'
        f"{_text((_LEFT + right) / 2.0, _HEIGHT - 4.0, 'age of an event, in steps', 'middle')}"
        f"{_text(_LEFT, _TOP - 4.0, 'privacy loss (ε)', 'start')}</svg>"
    )


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'
