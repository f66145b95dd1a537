"""Disks that fail: the process stops with one line, and the next one goes on with nothing lost,
doubled or changed."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.victim import STOPPED, check

TICKS = 12
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes system calls fail, compiled here."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("no C compiler on Linux: failing system calls are not tested")
    target = tmp_path_factory.mktemp("shim") / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(target), str(source), "-ldl"], check=True
    )
    return target


def run_victim(
    folder: Path, ticks: int = TICKS, **variables: str
) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-m", "tests.faults.victim", str(folder), str(ticks)],
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def stopped_with_one_line(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == STOPPED, result.stderr
    assert result.stderr.count("\n") == 1, result.stderr


CASES = [
    *(("fdatasync", errno.EIO, "streams.db", after) for after in (0, 5, 14)),
    *(("write", errno.EIO, "streams.db-wal", after) for after in (1, 20)),
    *(("write", errno.ENOSPC, "streams.db-wal", after) for after in (13, 40)),
    *(("write", 0, "streams.db-wal", after) for after in (17,)),
    *(("fdatasync", errno.EIO, "/fence/", after) for after in (0, 1, 3, 8)),
    ("fsync", errno.EIO, "/fence", 0),
    *(("write", errno.EIO, "/fence/", after) for after in (0, 1, 7)),
    *(("write", errno.ENOSPC, "fence.db-wal", after) for after in (0, 6, 20)),
    ("write", 0, "fence.db-wal", 4),
]


@pytest.mark.parametrize(("call", "error", "path", "after"), CASES)
def test_failing_system_calls(
    shim: Path, tmp_path: Path, call: str, error: int, path: str, after: int
) -> None:
    result = run_victim(
        tmp_path / "v",
        LD_PRELOAD=str(shim),
        FAULT_CALL=call,
        FAULT_ERRNO=str(error),
        FAULT_PATH=path,
        FAULT_AFTER=str(after),
    )
    if error:
        stopped_with_one_line(result)
    else:  # SQLite writes the rest of a short write itself
        assert result.returncode in (0, STOPPED)
    check(tmp_path / "v", TICKS)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2400k", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(
            "no right to mount a small tmpfs: a full disk is tested by failing system calls only"
        )
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    stopped_with_one_line(run_victim(small_disk, 2000))
    stopped_with_one_line(run_victim(small_disk, 2000))
    subprocess.run(["mount", "-o", "remount,size=40m", str(small_disk)], check=True)
    closed = (small_disk / "done").read_text().count("closed")
    assert closed >= 2
    check(small_disk, closed + 20)


@pytest.fixture
def locked() -> Iterator[Path]:
    """A folder that the victim may enter but not write to; not below pytest's own, which only root
    may enter."""
    with tempfile.TemporaryDirectory() as name:
        (folder := Path(name)).chmod(0o755)
        yield folder
        folder.chmod(0o700)


def test_a_folder_that_cannot_be_written(locked: Path) -> None:
    folder, who = locked, ""
    (folder / "done").touch()
    if os.geteuid() == 0:  # root may write anywhere, so be somebody else
        os.chown(folder / "done", 65534, -1)
        who = "import os; os.setuid(65534)"
    else:
        folder.chmod(0o500)
    code = (
        f"import sys; sys.path[:0] = {[str(ROOT / 'src'), str(ROOT)]!r}; from pathlib import Path"
    )
    words = (
        f"{code}; from tests.faults import"
        f" victim\n{who}\nsys.exit(victim.main(Path({str(folder)!r}), 3))"
    )
    result = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=False
    )
    stopped_with_one_line(result)
    assert "Permission denied" in result.stderr


@pytest.mark.parametrize("limit", [40_000, 90_000])
def test_a_limit_on_file_sizes(tmp_path: Path, limit: int) -> None:
    """Writes that end short with EFBIG, from the kernel itself."""
    folder = tmp_path / "v"
    folder.mkdir()
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f" resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY));"
        f" sys.path[:0] = {[str(ROOT / 'src'), str(ROOT)]!r}; from pathlib import Path; from"
        f" tests.faults import victim; sys.exit(victim.main(Path({str(folder)!r}), 500))"
    )
    stopped_with_one_line(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    )
    check(folder, (folder / "done").read_text().count("closed") + 5)
