"""``python -m campaigns.service.doomed STEP PASSING serve ...``: the service, which kills itself at
a named step of its work."""

from __future__ import annotations

import sys

from campaigns.crash.worker import Killer
from fadecount.cli.main import main
from fadecount.service import server
from fadecount.streams import FileFence, Storage, Store
from fadecount.streams import storage as opening

if __name__ == "__main__":
    killer = Killer(sys.argv[1], int(sys.argv[2]))

    def open_store(storage: Storage, *, lock_wait_seconds: float = 0.0) -> Store:
        store = opening.open_store(storage, lock_wait_seconds=lock_wait_seconds)
        assert isinstance(store._context.fence, FileFence)
        store._context.checkpoint = store._context.fence.checkpoint = killer
        return store

    server.open_store = open_store  # type: ignore[attr-defined]
    sys.exit(main(sys.argv[3:]))
