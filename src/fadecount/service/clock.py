"""Time as the service sees it."""

from __future__ import annotations

import time


class Clock:
    """Wall-clock time. A demonstration may use one that runs faster."""

    def now(self) -> float:
        """Unix seconds."""
        return time.time()

    def until(self, moment: float) -> float:
        """Real seconds to wait for a moment; 0 if it has passed."""
        return max(0.0, moment - self.now())


class FastClock(Clock):
    """Time that began at ``start`` when this was made and runs ``speed`` times as fast as real
    time; ``skip`` jumps ahead."""

    def __init__(self, start: float, speed: float) -> None:
        self._start, self._speed = start, speed
        self._began = time.monotonic()

    def now(self) -> float:
        """Unix seconds of the faster time."""
        return self._start + (time.monotonic() - self._began) * self._speed

    def until(self, moment: float) -> float:
        """Real seconds to wait for a moment; 0 if it has passed."""
        return max(0.0, (moment - self.now()) / self._speed)

    def skip(self, seconds: float) -> None:
        """Jump ahead."""
        self._start += seconds
