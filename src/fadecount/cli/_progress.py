"""A progress bar on standard error, for work that takes longer than a second. Silent without a
terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TextIO

_WAIT_SECONDS = 0.5
_EVERY_SECONDS = 0.1
_WIDTH = 30


class Progress:
    """``with Progress("reading", total=10) as bar: bar.advance(1)``; ``bar.note`` is shown behind
    the bar."""

    def __init__(
        self, label: str, *, total: float | None = None, stream: TextIO | None = None
    ) -> None:
        self._label = label
        self._total = total
        self._stream = stream if stream is not None else sys.stderr
        self._shows = self._stream.isatty()
        self._done = 0.0
        self._started = self._drawn = time.monotonic()
        self._visible = False
        self.note = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._visible:
            self._draw(time.monotonic())
            self._stream.write("\n")
            self._stream.flush()

    def advance(self, amount: float = 1.0, *, note: str | None = None) -> None:
        self._done += amount
        if note is not None:
            self.note = note
        now = time.monotonic()
        if (
            self._shows
            and now - self._started > _WAIT_SECONDS
            and now - self._drawn > _EVERY_SECONDS
        ):
            self._draw(now)

    def _draw(self, now: float) -> None:
        self._drawn, self._visible = now, True
        elapsed = now - self._started
        if self._total:
            share = min(1.0, self._done / self._total)
            filled = round(share * _WIDTH)
            left = elapsed / share - elapsed if share > 0 else 0.0
            bar = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {share:4.0%}  {left:.0f} s left"
        else:
            bar = f"{self._done:,.0f} done, {elapsed:.0f} s" if self._done else f"{elapsed:.0f} s"
        self._stream.write(f"\r\x1b[K{self._label} {bar}  {self.note}")
        self._stream.flush()


@contextmanager
def waiting(label: str, *, stream: TextIO | None = None) -> Iterator[None]:
    """Shows that work without a measure of progress is running."""
    over = threading.Event()
    with Progress(label, stream=stream) as bar:

        def show() -> None:
            while not over.wait(_EVERY_SECONDS):
                bar.advance(0.0)

        thread = threading.Thread(target=show, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
