"""Group commit: many callers, one transaction. While one group is being made durable, the next one gathers."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from fadecount.errors import FadecountError, StoreError
from fadecount.streams.inputs import Batch, Intake

LARGEST_GROUP = 1024


class GroupCommit:
    """Accepts batches from any number of threads; each future is done when its batch is durable.

    A batch with a mistake fails alone: the group is then accepted one by one.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._waiting: list[tuple[Batch, Future[bool]]] = []
        self._wake = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="fadecount group commit", daemon=True)
        self._thread.start()

    def submit(self, batch: Batch) -> Future[bool]:
        """The future tells True when the batch is counted and durable, False if its id was counted before."""
        future: Future[bool] = Future()
        with self._wake:
            if self._stopped:
                raise StoreError("store is closing; repeat the batch under the same id")
            self._waiting.append((batch, future))
            if len(self._waiting) == 1:  # whoever came before has woken the worker
                self._wake.notify()
        return future

    def close(self) -> None:
        """Finish what was submitted, then stop."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._waiting or self._stopped)
                group, self._waiting = self._waiting[:LARGEST_GROUP], self._waiting[LARGEST_GROUP:]
            if not group:
                return
            self._accept(group)

    def _accept(self, group: list[tuple[Batch, Future[bool]]]) -> None:
        try:
            results = self._intake.accept([batch for batch, _ in group])
        except FadecountError as error:
            if len(group) == 1 or isinstance(error, StoreError):
                for _, future in group:
                    future.set_exception(error)
            else:
                for each in group:
                    self._accept([each])
        except BaseException as error:  # whoever waits must hear of it, whatever it was
            for _, future in group:
                future.set_exception(error)
        else:
            for (_, future), counted in zip(group, results, strict=True):
                future.set_result(counted)
