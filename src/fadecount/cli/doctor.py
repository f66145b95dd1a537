"""Check this machine: installation, randomness, disk, clock, store and fence.

One line for each check: ok, note (works, but read it) or FAILED. The exit
status is 1 if a check failed. Nothing is changed: a file of a few bytes is
written beside the store and beside the fence, synced and removed.

examples:
  fadecount doctor
  fadecount doctor --state /var/lib/fadecount --fence /var/lib/fadecount-fence
  fadecount doctor --json
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sqlite3
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import fadecount
from fadecount.cli._options import FILE_NAME, add_store_options, json_text, place_store
from fadecount.cli.main import EXTRAS, FAILED
from fadecount.errors import FadecountError, StoreError, install_hint

if TYPE_CHECKING:
    from fadecount.streams import Reader
    from fadecount.streams.fence import Fence

Verdict = Literal["ok", "note", "failed"]
_LOW_SPACE, _NO_SPACE = 1 << 30, 1 << 26
_RELEASED = datetime(2025, 1, 1, tzinfo=UTC)
_FAR = datetime(2100, 1, 1, tzinfo=UTC)
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found."""

    name: str
    verdict: Verdict
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store_options(parser)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    findings = list(diagnose(arguments))
    healthy = all(each.verdict != "failed" for each in findings)
    if arguments.json:
        print(json_text({"ok": healthy, "checks": [asdict(each) for each in findings]}))
    else:
        width = max(len(each.name) for each in findings)
        for each in findings:
            print(
                f"{'FAILED' if each.verdict == 'failed' else each.verdict:<6}  {each.name:<{width}}"
                f"  {each.text}"
            )
    return 0 if healthy else FAILED


def diagnose(arguments: argparse.Namespace) -> Iterator[Finding]:
    """Every finding, in the order in which a person would look."""
    yield _guarded("installation", _installation)
    yield from _extras()
    yield _guarded("randomness", _randomness)
    yield _guarded("clock", _clock)
    yield _guarded("time zones", _zones)
    settings = _guarded("settings", lambda: _settings(arguments))
    yield settings
    if settings.verdict == "failed":
        return
    if arguments.state is not None:
        yield _guarded("disk of the store", lambda: _disk(Path(arguments.state)))
    yield from _store(arguments)


def _guarded(name: str, check: Callable[[], tuple[Verdict, str]]) -> Finding:
    """A check that fails with an error is a failed check, in one line."""
    try:
        verdict, text = check()
    except (FadecountError, OSError, ImportError, ValueError) as error:
        verdict, text = "failed", " ".join(str(error).split())
    return Finding(name=name, verdict=verdict, text=text)


def _installation() -> tuple[Verdict, str]:
    parts = [
        f"fadecount {fadecount.__version__}",
        f"Python {platform.python_version()}",
        f"SQLite {sqlite3.sqlite_version}",
    ]
    parts += [f"{package} {version(package)}" for package in ("numpy", "cryptography")]
    supported = sys.version_info >= (3, 11)
    return ("ok" if supported else "failed"), ", ".join(parts) + (
        "" if supported else "; Python must be 3.11 or newer"
    )


def _extras() -> Iterator[Finding]:
    """The optional parts: with their versions, or with the command that installs them. None of them
    is needed."""
    for extra in sorted(set(EXTRAS.values())):
        found, missing = [], []
        for package in (name for name, belongs in EXTRAS.items() if belongs == extra):
            try:
                found.append(f"{package} {version(package)}")
            except PackageNotFoundError:
                missing.append(package)
        text = ", ".join(found)
        if missing:
            text = f"not installed: {', '.join(missing)}; {install_hint(extra)}"
        yield Finding(name=f"extra {extra}", verdict="note" if missing else "ok", text=text)


def _randomness() -> tuple[Verdict, str]:
    from fadecount.noise import unpredictable

    drawn = {unpredictable(32) for _ in range(16)}
    if len(drawn) < 16 or any(len(set(each)) < 8 for each in drawn):
        return "failed", "the operating system repeats its random bytes; no counter may run here"
    fadecount.Counter(fadecount.Gradual(1.0)).step(0)
    return "ok", "the operating system gives unpredictable bytes, and noise can be drawn from them"


def _clock() -> tuple[Verdict, str]:
    wall, steady = time.time(), time.monotonic()
    time.sleep(_LOOK_SECONDS)
    drift = abs((time.time() - wall) - (time.monotonic() - steady))
    now = datetime.fromtimestamp(wall, UTC)
    shown = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    if not _RELEASED < now < _FAR:
        return "failed", f"the clock says {shown}; set it, ticks are closed by it"
    if drift > 1.0:
        return (
            "failed",
            (
                f"the clock says {shown} and jumped by {drift:.1f} s while it was looked at; let"
                " one time service set it"
            ),
        )
    return "ok", f"it is {shown} (UTC) by this machine; compare it with another clock"


def _zones() -> tuple[Verdict, str]:
    try:
        ZoneInfo("Europe/Berlin")
    except (ZoneInfoNotFoundError, OSError):
        return "note", "no time zones but UTC; install the package tzdata for --zone"
    return "ok", "the time zone data are installed"


def _settings(arguments: argparse.Namespace) -> tuple[Verdict, str]:
    from fadecount.service.settings import read_settings

    read_settings({}, os.environ)  # all of them, as serve does
    place_store(arguments, keep=True)
    where = "a PostgreSQL database" if arguments.database else str(arguments.state)
    sealed = (
        "sealed with a key"
        if arguments.key_file or os.environ.get("FADECOUNT_KEY")
        else "not sealed (--key-file seals it)"
    )
    return "ok", f"store in {where}, {sealed}"


def _disk(folder: Path) -> tuple[Verdict, str]:
    """Whether there is room, whether a file can be synced, and whether others may look inside."""
    if not folder.exists():
        place = next(each for each in folder.absolute().parents if each.exists())
        return "note", f"{folder} does not exist yet; {_space(place)[1]}"
    verdict, text = _space(folder)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
        file.write(b"fadecount")
        file.flush()
        begun = time.monotonic()
        os.fsync(file.fileno())
        took = time.monotonic() - begun
    text = f"{folder}: {text}, a file is synced in {1000.0 * took:.1f} ms"
    if folder.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) and verdict == "ok":
        return "note", f"{text}; other users may look into it: chmod 700 {folder}"
    return verdict, text


def _space(folder: Path) -> tuple[Verdict, str]:
    free = shutil.disk_usage(folder).free
    text = f"{free / (1 << 30):,.1f} GiB free"
    return ("failed" if free < _NO_SPACE else "note" if free < _LOW_SPACE else "ok"), text


def _store(arguments: argparse.Namespace) -> Iterator[Finding]:
    """Whether the store opens, agrees with its fence, and is not ahead of the clock."""
    from fadecount.cli._options import open_reader
    from fadecount.streams.fence import FileFence, fence_from

    where = "the database" if arguments.database else str(Path(arguments.state) / FILE_NAME)
    if not arguments.database and not Path(where).exists():
        yield Finding(
            name="store",
            verdict="note",
            text=f"{where} does not exist yet; run or serve creates it",
        )
        reader = None
    else:
        try:
            reader = open_reader(arguments)
        except (FadecountError, OSError) as error:
            yield Finding(name="store", verdict="failed", text=" ".join(str(error).split()))
            return
    try:
        names = [] if reader is None else reader.names()
        if reader is not None:
            yield Finding(
                name="store", verdict="ok", text=f"{where} opens; streams: {len(names):,}"
            )
            yield _guarded("ticks and clock", lambda: _ticks(reader, names))
        try:
            fence = fence_from(arguments.fence)
        except FadecountError as error:
            yield Finding(name="fence", verdict="failed", text=" ".join(str(error).split()))
            return
        if isinstance(fence, FileFence):
            yield _guarded("disk of the fence", lambda: _disk(fence.folder))
        if reader is not None:
            yield _guarded("fence", lambda: _fence(arguments, reader, names, fence))
    finally:
        if reader is not None:
            reader.close()


def _ticks(reader: Reader, names: list[str]) -> tuple[Verdict, str]:
    now = time.time()
    for name in names:
        status = reader.status(name)
        tick = status.published_tick
        if tick is not None and status.description.ticks.start_seconds(tick) > now:
            shown = status.description.ticks.shown(tick)
            return (
                "note",
                (
                    f"stream {name!r} has released the tick of {shown}, which is in the future; is"
                    " this clock behind?"
                ),
            )
    return "ok", "no stream is ahead of the clock"


def _fence(
    arguments: argparse.Namespace, reader: Reader, names: list[str], fence: Fence
) -> tuple[Verdict, str]:
    from fadecount.streams.fence import FileFence, in_order, shared_fate

    for name in names:
        uid = reader.status(name).uid
        looks = (
            (fence.read(uid), reader.status(name)) for _ in range(5)
        )  # a running service moves both meanwhile
        if not any(in_order(status, mark) for mark, status in looks):
            raise StoreError(
                f"stream {name!r} does not agree with the fence at {fence.where}; see"
                " docs/operations.md, restore"
            )
    store = Path(arguments.state) / FILE_NAME if arguments.database is None else None
    warning = (
        shared_fate(store, fence) if store is not None and isinstance(fence, FileFence) else None
    )
    text = (
        f"{fence.where} agrees with the store"
        if names
        else f"{fence.where}; the store has no streams yet"
    )
    return ("ok", text) if warning is None else ("note", f"{text}; {warning}")
