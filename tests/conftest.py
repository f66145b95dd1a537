"""What holds for every test: nothing comes from the machine, and nothing is left running for the
next module."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.unsynced import unsynced

HOME = Path(__file__).parent.parent / "out" / "home"

# No test fails because the machine is busy.
settings.register_profile("fadecount", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fadecount")


def pytest_configure(config: pytest.Config) -> None:
    """A home of the tests' own, in the checkout. Fences of an earlier run are removed: its
    temporary folders may get their names again, and a fence remembers what was published there."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(HOME / ".local" / "state", ignore_errors=True)
    HOME.mkdir(parents=True, exist_ok=True)
    os.environ["HOME"] = str(HOME)
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        os.environ.pop(name, None)
    # PostgreSQL's package keeps a lock here or, without this folder, among the temporary files of
    # the machine.
    runtime = HOME / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    (runtime / "python_PostgresServer").mkdir(exist_ok=True)
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk() -> Iterator[None]:
    with unsynced():
        yield


def loop_left_running() -> bool:
    """Whether an event loop runs in this thread. While one does, ``asyncio.run`` fails here."""
    return asyncio._get_running_loop() is not None


@pytest.fixture(scope="module", autouse=True)
def no_loop_is_left_running() -> Iterator[None]:
    """Fails the module that leaves an event loop behind, rather than the next module that needs
    one."""
    assert not loop_left_running(), (
        "an event loop is running before this module: an earlier one left it"
    )
    yield
    assert not loop_left_running(), (
        "this module leaves an event loop running: stop Playwright at the end of the module"
    )
