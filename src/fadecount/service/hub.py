"""Live readers: each waits until there is a newer tick than the one it has, and gets what was published since, from the store.

Nothing is kept per reader but its place, so a slow one costs no memory. The frames of the last ticks are kept per stream,
because a hundred readers want the same one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

KEPT_FRAMES = 64


class Hub:
    """Which tick of each stream is the latest, and the frames of the last few."""

    def __init__(self, make_frame: Callable[[str, int], Awaitable[bytes | None]]) -> None:
        self._make_frame = make_frame
        self._latest: dict[str, int] = {}
        self._changed = asyncio.Event()
        self._frames: OrderedDict[tuple[str, int], asyncio.Future[bytes | None]] = OrderedDict()
        self.closed = False

    def nudge(self, stream: str, tick: int) -> None:
        """A tick has been published (here, or found to have been by another process)."""
        if tick > self._latest.get(stream, tick - 1):
            self._latest[stream] = tick
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def latest(self, stream: str) -> int | None:
        return self._latest.get(stream)

    def close(self) -> None:
        """Let every live reader go."""
        self.closed = True
        self._changed.set()

    async def newer(self, stream: str, than: int | None, timeout: float) -> bool:
        """Wait until the stream has a tick after ``than`` (None: any); False if it took too long, or the hub closed."""
        try:
            async with asyncio.timeout(timeout):
                while not self.closed and not self._has_newer(stream, than):
                    await self._changed.wait()
        except TimeoutError:
            return False
        return not self.closed

    def _has_newer(self, stream: str, than: int | None) -> bool:
        latest = self._latest.get(stream)
        return latest is not None and (than is None or latest > than)

    async def frame(self, stream: str, tick: int) -> bytes | None:
        """The frame of a published tick, made once for all readers."""
        found = self._frames.get((stream, tick))
        if found is None:
            found = self._frames[stream, tick] = asyncio.ensure_future(self._make_frame(stream, tick))
            while len(self._frames) > KEPT_FRAMES:
                self._frames.popitem(last=False)
        try:
            return await asyncio.shield(found)
        except Exception:
            self._frames.pop((stream, tick), None)
            raise
