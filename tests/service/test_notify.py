"""Messages to systemd, over a real socket: ready, stopping, signs of life."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fadecount.service.server import Notifier
from tests.service.process import ServeProcess


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of a service manager; its address is short, since a path of a socket is limited to
    108 bytes."""
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as received:
        received.bind("manager")
        received.settimeout(60)
        yield received


def lines(manager: socket.socket) -> list[str]:
    return manager.recv(4096).decode().splitlines()


def next_line(manager: socket.socket) -> str:
    """The first line of the next message that is no sign of life."""
    while (first := lines(manager)[0]) == "WATCHDOG=1":
        pass
    return first


def test_a_service_says_when_it_is_ready_and_stops(
    manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "manager")
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    with ServeProcess(tmp_path) as service:
        assert next_line(manager) == "READY=1"
        while lines(manager) != ["WATCHDOG=1"]:
            pass
        assert service.stop()[0] == 0
        assert next_line(manager) == "STOPPING=1"


def test_without_a_manager_nothing_is_sent(tmp_path: Path) -> None:
    notifier = Notifier({})
    notifier.ready()
    assert notifier.watchdog_seconds is None
    gone = Notifier(
        {
            "NOTIFY_SOCKET": str(tmp_path / "nowhere"),
            "WATCHDOG_USEC": "1000000",
            "WATCHDOG_PID": "1",
        }
    )
    gone.stopping()  # a socket that is gone does not disturb the service
    assert gone.watchdog_seconds is None, "the watchdog watches another process"
    assert Notifier({"NOTIFY_SOCKET": "x", "WATCHDOG_USEC": "soon"}).watchdog_seconds is None


def test_an_abstract_address_and_a_service_that_is_not_alive(manager: socket.socket) -> None:
    name = f"fadecount-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as received:
        received.bind(f"\0{name}")
        received.settimeout(60)
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).ready()
        assert lines(received) == ["READY=1"]
    answers = iter([True, False, False, True])
    notifier = Notifier(
        {"NOTIFY_SOCKET": "manager", "WATCHDOG_USEC": "2000", "WATCHDOG_PID": str(os.getpid())}
    )

    def alive() -> None:
        with pytest.raises(RuntimeError):  # the answers are used up
            asyncio.run(notifier.signs_of_life(lambda: next(answers)))

    thread = threading.Thread(target=alive)
    thread.start()
    thread.join(60)
    manager.settimeout(0.0)
    assert [lines(manager), lines(manager)] == [["WATCHDOG=1"]] * 2
    with pytest.raises(BlockingIOError):
        lines(manager)
