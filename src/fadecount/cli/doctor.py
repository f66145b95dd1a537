"""Check this machine: the installation, and the store with its fence.

One line for each check: ok, note (works, but read it) or FAILED. The exit
status is 1 if a check failed. Nothing is changed.

examples:
  fadecount doctor
  fadecount doctor --state /var/lib/fadecount --fence /var/lib/fadecount-fence
"""

from __future__ import annotations

import argparse
import stat
import time
from collections.abc import Callable
from typing import Literal

from fadecount.cli._options import add_store_options, open_reader, place_store, storage_from
from fadecount.cli.main import EXTRAS, FAILED
from fadecount.errors import FadecountError, install_hint

Verdict = Literal["ok", "note", "FAILED"]
Finding = tuple[Verdict, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    place_store(arguments, keep=True)
    status = 0
    for name, check in (("installation", _installation), ("store", _store)):
        verdict, text = _checked(check, arguments)
        status = FAILED if verdict == "FAILED" else status
        print(f"{verdict:<6}  {name:<12}  {text}")
    return status


def _checked(
    check: Callable[[argparse.Namespace], Finding], arguments: argparse.Namespace
) -> Finding:
    """Return what a check says; one that raises an error has failed."""
    try:
        return check(arguments)
    except (FadecountError, OSError, ImportError, ValueError) as error:
        return "FAILED", " ".join(str(error).split())


def _installation(_arguments: argparse.Namespace) -> Finding:
    """Draw noise once, and say which extras are missing: none of them is needed."""
    from importlib.metadata import version
    from importlib.util import find_spec

    import fadecount as fc

    fc.Counter(fc.Gradual(1.0)).step(0)
    missing = sorted({extra for package, extra in EXTRAS.items() if find_spec(package) is None})
    hint = f"; not installed: {', '.join(missing)} ({install_hint(missing[0])})" if missing else ""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "cryptography"))
    return "ok", f"fadecount {fc.__version__} with {packages}{hint}"


def _store(arguments: argparse.Namespace) -> Finding:
    """Say whether the store opens, agrees with its fence, is not ahead of the clock, and is closed
    to other users."""
    from fadecount.streams.fence import fence_from, in_order

    fence = fence_from(arguments.fence)
    storage = storage_from(arguments)
    folder = storage.folder if storage.database is None else None
    if folder is not None and not storage.store_path.exists():
        return "note", f"there is none in {folder} yet; run or serve makes it"
    with open_reader(arguments) as reader:
        names = reader.names()
        for name in names:
            status = reader.status(name)
            # a running service moves both meanwhile
            marks = map(fence.read, [status.uid] * 5)
            if not any(in_order(reader.status(name), mark) for mark in marks):
                return "FAILED", f"stream {name!r} does not agree with the fence at {fence.where}"
            tick, ticks = status.published_tick, status.description.ticks
            if ticks.start_seconds(tick) > time.time():
                return "note", f"stream {name!r} is ahead of this clock: {ticks.shown(tick)}"
    if folder is not None and stat.S_IMODE(folder.stat().st_mode) & 0o77:
        return "note", f"other users may look into it: chmod 700 {folder}"
    return "ok", f"{len(names):,} streams agree with the fence at {fence.where}"
