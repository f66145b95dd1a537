"""What both databases share: one connection for several threads, whole transactions, and no work after a failure."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from fadecount.errors import StoreError
from fadecount.streams.database import store_failed


class GuardedConnection(ABC):
    """Guarantees: a transaction is committed whole or not at all; after a failure of the database every call raises.

    Nothing is known about the transaction under way then: a new connection reads what was really committed.
    """

    _first_words: ClassVar[str] = "BEGIN"

    def __init__(self, failures: Any) -> None:
        self._failures = failures
        self._guard = threading.RLock()
        self._broken = False

    @abstractmethod
    def change(self, sql: str, values: Sequence[Any] = ()) -> int: ...

    @abstractmethod
    def _failure(self, error: Any) -> StoreError:
        """What a failure of the database is, in one line and without values."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._guard:
            self.change(self._first_words)
            try:
                yield
            except BaseException:
                if not self._broken:
                    self.change("ROLLBACK")
                raise
            self.change("COMMIT")

    def _run(self, action: Callable[[], Any]) -> Any:
        with self._guard:
            if self._broken:
                raise store_failed("an earlier error left it in doubt")
            try:
                return action()
            except self._failures as error:
                self._broken = True
                raise self._failure(error) from error
