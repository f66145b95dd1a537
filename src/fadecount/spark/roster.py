"""The keys of one shard: their names, in order, and what is derived from them once."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fadecount.errors import InputError, ParameterError, SavedStateError
from fadecount.noise.keyed import tags_of


class Roster:
    """The declared keys of a shard in their order, and the tag of each (see :mod:`fadecount.noise.keyed`)."""

    __slots__ = ("_index", "names", "tags")

    def __init__(self, names: Sequence[str], tags: NDArray[np.uint64] | None = None) -> None:
        self.names: NDArray[Any] = np.array(names, dtype=object)
        self.tags = np.empty((0, 2), dtype="<u8") if tags is None else tags
        self._index: Any = pd.Index(self.names)

    @classmethod
    def of(cls, names: Iterable[str | None]) -> Roster:
        """A roster of declared keys, sorted; each once; without tags as yet."""
        given = set(names)
        if None in given:
            raise ParameterError("keys must not hold null; declare only keys with a name")
        return cls(sorted(str(name) for name in given))

    def tagged(self, stream_key: bytes) -> Roster:
        return Roster(self.names.tolist(), tags_of(stream_key, self.names.tolist()))

    def __len__(self) -> int:
        return len(self.names)

    def positions(self, keys: Any) -> NDArray[np.int64]:
        """The place of each key of some events; -1 for keys that were not declared. A null is refused."""
        if bool(pd.isna(keys).any()):
            raise InputError("key must not be null; drop or name such events before they are counted")
        found: NDArray[np.int64] = np.asarray(self._index.get_indexer(keys), dtype=np.int64)
        return found

    def to_bytes(self) -> bytes:
        """The number of keys, the lengths of their names, the names, the tags."""
        encoded = [name.encode("utf-8", "surrogatepass") for name in self.names]
        lengths = np.array([len(each) for each in encoded], dtype="<u4")
        return len(encoded).to_bytes(8, "little") + lengths.tobytes() + b"".join(encoded) + self.tags.tobytes()

    @classmethod
    def from_bytes(cls, blob: bytes) -> Roster:
        count = int.from_bytes(blob[:8], "little")
        names_at = 8 + 4 * count
        if len(blob) < names_at:
            raise _damaged()
        ends = list(itertools.accumulate(np.frombuffer(blob, "<u4", count, 8).tolist(), initial=names_at))
        if len(blob) != ends[-1] + 16 * count:
            raise _damaged()
        tags = np.frombuffer(blob, "<u8", 2 * count, ends[-1]).reshape(-1, 2)
        names = [blob[start:end].decode("utf-8", "surrogatepass") for start, end in itertools.pairwise(ends)]
        return cls(names, tags)


def _damaged() -> SavedStateError:
    return SavedStateError("keys of a shard must be whole, got damaged bytes; restore the checkpoint")
