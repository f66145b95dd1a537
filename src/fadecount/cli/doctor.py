"""Check this machine: installation, clock, disk, store and fence.

One line for each check: ok, note (works, but read it) or FAILED. The exit
status is 1 if a check failed. Nothing is changed.

examples:
  fadecount doctor
  fadecount doctor --state /var/lib/fadecount --fence /var/lib/fadecount-fence
  fadecount doctor --json
"""

from __future__ import annotations

import argparse
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from fadecount.cli._options import (
    FILE_NAME,
    JSON_OPTION,
    add_options,
    add_store_options,
    open_reader,
    place_store,
)
from fadecount.cli._output import json_text
from fadecount.cli.main import EXTRAS, FAILED
from fadecount.errors import FadecountError, install_hint

Verdict = Literal["ok", "note", "failed"]
LOW_SPACE = 1 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store_options(parser)
    add_options(parser, JSON_OPTION)


def run(arguments: argparse.Namespace) -> int:
    place_store(arguments, keep=True)
    checks: dict[str, Callable[[], tuple[Verdict, str]]] = {
        "installation": _installation,
        "clock": _clock,
        "disk": lambda: _disk(arguments),
        "store": lambda: _store(arguments),
    }
    results = [(name, *_checked(check)) for name, check in checks.items()]
    healthy = all(verdict != "failed" for _, verdict, _ in results)
    if arguments.json:
        rows = [dict(zip(("name", "verdict", "text"), row, strict=True)) for row in results]
        print(json_text({"ok": healthy, "checks": rows}))
    else:
        for name, verdict, text in results:
            print(f"{'FAILED' if verdict == 'failed' else verdict:<6}  {name:<12}  {text}")
    return 0 if healthy else FAILED


def _checked(check: Callable[[], tuple[Verdict, str]]) -> tuple[Verdict, str]:
    """Return what a check says; one that raises an error has failed."""
    try:
        return check()
    except (FadecountError, OSError, ImportError, ValueError) as error:
        return "failed", " ".join(str(error).split())


def _installation() -> tuple[Verdict, str]:
    """Draw noise once, and say which extras are missing: none of them is needed."""
    import fadecount as fc

    fc.Counter(fc.Gradual(1.0)).step(0)
    missing = sorted({extra for package, extra in EXTRAS.items() if not _installed(package)})
    hint = f"; not installed: {', '.join(missing)} ({install_hint(missing[0])})" if missing else ""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "cryptography"))
    return "ok", f"fadecount {fc.__version__} with {packages}{hint}"


def _installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _clock() -> tuple[Verdict, str]:
    now = datetime.fromtimestamp(time.time(), UTC)
    shown = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    if not 2025 <= now.year < 2100:
        return "failed", f"the clock says {shown}; set it, ticks are closed by it"
    return "ok", f"it is {shown} by this machine; compare it with another clock"


def _disk(arguments: argparse.Namespace) -> tuple[Verdict, str]:
    """Say how much room there is beside the store, and whether others may look inside."""
    folder = Path(arguments.state or ".").absolute()
    place = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(place).free
    text = f"{folder}: {free / (1 << 30):,.1f} GiB free"
    if free < LOW_SPACE:
        return ("failed" if free < LOW_SPACE >> 4 else "note"), text
    if arguments.state and folder.exists() and stat.S_IMODE(folder.stat().st_mode) & 0o77:
        return "note", f"{text}; other users may look into it: chmod 700 {folder}"
    return "ok", text


def _store(arguments: argparse.Namespace) -> tuple[Verdict, str]:
    """Say whether the store opens, agrees with its fence, and is not ahead of the clock."""
    from fadecount.streams.fence import fence_from, in_order

    fence = fence_from(arguments.fence)
    if arguments.state is not None and not (Path(arguments.state) / FILE_NAME).exists():
        return "note", f"there is none in {arguments.state} yet; run or serve makes it"
    with open_reader(arguments) as reader:
        names = reader.names()
        for name in names:
            status = reader.status(name)
            # a running service moves both meanwhile
            looks: Iterator[bool] = (
                in_order(reader.status(name), mark) for mark in map(fence.read, [status.uid] * 5)
            )
            if not any(looks):
                return "failed", f"stream {name!r} does not agree with the fence at {fence.where}"
            tick, ticks = status.published_tick, status.description.ticks
            if tick is not None and ticks.start_seconds(tick) > time.time():
                return "note", f"stream {name!r} is ahead of this clock: {ticks.shown(tick)}"
    return "ok", f"{len(names):,} streams agree with the fence at {fence.where}"
