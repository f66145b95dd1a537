"""Messages to systemd, over a real socket: ready, stopping, signs of life."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fadecount.service.server import notify, signs_of_life
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


def test_a_manager_that_is_gone_does_not_disturb_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nowhere"))
    notify("STOPPING=1")
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    asyncio.run(signs_of_life(lambda: True))  # nobody wants one


def test_an_abstract_address_and_a_service_that_is_not_alive(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"fadecount-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as received:
        received.bind(f"\0{name}")
        received.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        notify("READY=1")
        assert lines(received) == ["READY=1"]
    monkeypatch.setenv("NOTIFY_SOCKET", "manager")
    monkeypatch.setenv("WATCHDOG_USEC", "2000")
    answers = iter([True, False, False, True])
    with pytest.raises(RuntimeError):  # the answers are used up
        asyncio.run(signs_of_life(lambda: next(answers)))
    manager.settimeout(0.0)
    assert [lines(manager), lines(manager)] == [["WATCHDOG=1"]] * 2
    with pytest.raises(BlockingIOError):
        lines(manager)
