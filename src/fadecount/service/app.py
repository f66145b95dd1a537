"""The service: the application with its routes, and the writer and readers behind them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial

from fadecount.service.http import Tagged
from fadecount.service.metrics import STATES, Metrics
from fadecount.service.openapi import openapi_document
from fadecount.service.operations import static_files
from fadecount.service.problems import Problem
from fadecount.service.read_routes import ReadContext
from fadecount.service.reader_pool import ReaderPool
from fadecount.service.routes import PAGES, READING, VISITS, WRITING, Application, Router
from fadecount.service.settings import Settings, open_reader, open_store
from fadecount.service.tokens import Access
from fadecount.service.website import VisitContext, Websites
from fadecount.service.write_routes import WriteContext
from fadecount.service.writer import Leader, Writer

log = logging.getLogger("fadecount.service")
LOOK_SECONDS = 0.5
"""Seconds between two checks for changes by others: new and revoked tokens, and ticks that other
processes published."""


class Service:
    """An ASGI ``application`` with its writer, its readers and its live connections."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.metrics = metrics = Metrics()
        self.access = Access(public=settings.public)
        self.pool = ReaderPool(lambda: open_reader(settings.storage))
        is_shared = settings.storage.database is not None
        self.writer = Writer(
            lambda: Leader(open_store(settings.storage), settings.clock, is_shared=is_shared),
            settings.clock,
            metrics,
            settings.limits,
            on_change=self.pool.changed,
            reconnects=is_shared,
        )
        self.reading = ReadContext(
            pool=self.pool,
            access=self.access,
            clock=settings.clock,
            public=settings.public,
            metrics=metrics,
            files={**static_files(), "openapi.json": Tagged(openapi_document())},
            state_of=self.writer.stream_state,
            trouble=self.trouble,
        )
        writing = WriteContext(writer=self.writer, limits=settings.limits)
        self._websites = settings.websites or Websites()
        self.visiting = VisitContext(
            websites=self._websites,
            writer=self.writer,
            pool=self.pool,
            clock=settings.clock,
            script=self.reading.files["fadecount.js"],
        )
        reads = ((each, self.reading) for each in (*READING, *PAGES))
        writes = ((each, writing) for each in WRITING)
        visits = ((each, self.visiting) for each in VISITS)
        self.application = Application(
            Router([*reads, *writes, *visits]),
            self.access,
            hosts=settings.hosts,
        )
        metrics.ready.set_function(lambda: float(self.trouble() is None))
        metrics.lag.set_function(self._lag_seconds)
        for state in STATES:
            metrics.streams.labels(state).set_function(partial(self._streams, state))
        metrics.live_readers.set_function(lambda: self.reading.live_readers)
        self._looking: asyncio.Task[None] | None = None

    def trouble(self) -> str | None:
        """Why the service is not ready; None if it is."""
        return self.writer.trouble() or self.access.trouble()

    async def start(self) -> None:
        """Open the store, or raise the error that prevents it."""
        self._loop = asyncio.get_running_loop()
        self.writer.start()
        await self.writer.call(self._websites.create)
        await self.read_tokens()
        self._looking = asyncio.create_task(self._look())
        self._looking.add_done_callback(self._looked)

    async def stop(self, seconds: float = 20.0) -> bool:
        """Acknowledge accepted events, end live connections, close the store; False if the store
        did not answer in time."""
        self.pool.end_live()
        if self._looking:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        try:
            async with asyncio.timeout(seconds):
                await asyncio.to_thread(self._close)
        except TimeoutError:
            log.error("the store does not answer: the service ends without it")
            return False
        return True

    def _close(self) -> None:
        self.writer.stop()
        self.pool.close()

    async def read_tokens(self) -> None:
        """Use the tokens as they are now, also for live connections."""
        if self.access.replace(await self.writer.call(lambda leader: leader.tokens.grants())):
            self.pool.wake_all()

    async def _look(self) -> None:
        """Check for changes by others: tokens, and ticks that other processes published."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(Problem):
                await self.read_tokens()
                if self._settings.storage.database is not None:
                    await self.pool.find_changes()

    def _looked(self, looking: asyncio.Task[None]) -> None:
        """Revoked tokens are noticed no more: the service ends."""
        if not looking.cancelled() and (error := looking.exception()) is not None:
            log.error("looking for changes by others ended: %s", type(error).__name__)
            self.writer.give_up()

    def _streams(self, state: str) -> int:
        leader = self.writer.leader
        return 0 if leader is None else leader.states()[state]

    def _lag_seconds(self) -> float:
        leader = self.writer.leader
        return 0.0 if leader is None else round(leader.lag_seconds(), 1)
