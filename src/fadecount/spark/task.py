"""What a task does: some keys and their counts in, their figures out. Arrow and NumPy only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fadecount.counters.figures import Made
from fadecount.counters.named import Counts, Due, make
from fadecount.errors import CheckpointError
from fadecount.noise import KeyedNoise
from fadecount.spark.ledger import Commit
from fadecount.spark.stream import Stream, proof_of, read_secret
from fadecount.streams.calendar import BlockCalendar
from fadecount.streams.discovery import DISCOVERED
from fadecount.streams.embargo import drawn

FIGURES = (
    "stream string, per string, start timestamp, end timestamp, key string, stage int, "
    "status string, value long, low long, high long, published timestamp"
)
_NAMES = [column.split()[0] for column in FIGURES.split(", ")]
_COUNTS = pa.schema([("position", pa.int64()), ("key", pa.string()), ("events", pa.int64())])
_TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Task:
    """Makes the figures of some keys from their rows of the ledger: those of declared keys that are
    ``due``, and of keys that appear by themselves those that become public after more than
    ``after`` and at most ``until`` ticks. The order of rows depends on the figures only."""

    stream: Stream
    commit: Commit
    calendar: BlockCalendar
    due: list[Due]
    after: int
    until: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches((each.cast(_COUNTS) for each in batches), _COUNTS)
        keys = pc.unique(rows.filter(pc.is_null(rows["position"]))["key"]).sort()
        numbers = pc.index_in(rows["key"], value_set=keys)
        if len(keys):
            known = rows.set_column(1, "key", numbers).drop_null().sort_by("position")
            counts = Counts(*(column.to_numpy().astype(np.int64) for column in known.columns))
            noise = self._noise(keys.to_pylist())
            for made in make(self.stream.blocks, self.calendar, self.due, counts, noise):
                yield self._rows(made, keys)
        if self.stream.discovery is not None:
            yield from self._appearing(rows.filter(pc.is_null(numbers)))

    def _noise(self, keys: Sequence[str]) -> KeyedNoise:
        secret, stream = read_secret(self.stream), self.stream
        if proof_of(secret) != self.commit.stream["secret"]:
            raise CheckpointError(
                "secret_file must hold the secret that the stream began with on every executor, got"
                " another one; give all executors that one"
            )
        name, mechanism, epoch = stream.name, stream.blocks.to_json(), self.commit.epoch
        return KeyedNoise.derive(secret, epoch=epoch, stream=name, mechanism=mechanism, keys=keys)

    def _appearing(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """The keys that appear by themselves: a row says how many persons brought a key on the day
        that begins at its position."""
        description, first, days = self.stream.description, self.stream.first_tick, rows["position"]
        assert description.hidden is not None
        for start in pc.unique(days).sort().to_pylist():
            day = description.block_of(first + start)
            ticks = range(first + start, description.ticks_of(day).stop)
            _, keys, persons = rows.filter(pc.equal(days, start)).to_pydict().values()
            brought, noise = dict(zip(keys, persons, strict=True)), self._noise(keys)
            for tick, shown in drawn(description.hidden, day, ticks, brought, noise):
                public = tick - first
                if shown.keys and self.after < public <= self.until:
                    starts, ends, publics = np.array([[start], [ticks.stop - first], [public]])
                    made = Made(DISCOVERED, shown.stage, starts, ends, publics, shown.values)
                    yield self._rows(made, pa.array(shown.keys))

    def _rows(self, made: Made, keys: pa.Array) -> pa.RecordBatch:
        """Figures in the shape (blocks, keys) as rows."""
        (height, width), values = made.values.shape, pa.array(made.values.ravel())
        per, status, around = self.stream.about(made.level, made.stage)
        fixed = self.stream.name, per, pa.scalar(made.stage, pa.int32()), status
        stream, per, stage, status = (pa.repeat(each, len(values)) for each in fixed)
        ticks, first = self.calendar.ticks, self.calendar.first_tick
        start, end, published = (
            pa.array(np.repeat(ticks.starts_of(first + each), width) * 10**6, _TIME)
            for each in made[2:5]
        )
        key, half = keys.take(np.tile(np.arange(width), height)), pa.scalar(around, pa.int64())
        low, high = pc.subtract(values, half), pc.add(values, half)
        columns = [stream, per, start, end, key, stage, status, values, low, high, published]
        return pa.RecordBatch.from_arrays(columns, _NAMES)
