"""Messages to systemd (``sd_notify``): ready, stopping, and signs of life. Without
systemd, nothing is sent.

The protocol is one datagram per message to the socket that ``NOTIFY_SOCKET`` names; see ``man
sd_notify``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping


class Notifier:
    """Sends the state of the service to its manager. A message that cannot be sent never disturbs
    the service."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        own = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        wanted = environment.get("WATCHDOG_USEC", "") if self._address and own else ""
        self.watchdog_seconds: float | None = (
            int(wanted) / 1e6 if wanted.isdecimal() and int(wanted) > 0 else None
        )
        """The time within which the manager wants a sign of life; None if it wants none."""

    def ready(self) -> None:
        """The service listens, and its store is open."""
        self._send("READY=1")

    def stopping(self) -> None:
        """The service has begun to end."""
        self._send("STOPPING=1")

    async def signs_of_life(self, is_alive: Callable[[], bool]) -> None:
        """Send a sign of life at half the time that the manager allows, as long as ``is_alive``.
        Runs until it is cancelled."""
        while self.watchdog_seconds is not None:
            if is_alive():
                self._send("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_seconds / 2)

    def _send(self, *lines: str) -> None:
        if self._address:
            with (
                contextlib.suppress(OSError),
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel,
            ):
                channel.setblocking(False)
                channel.sendto("\n".join(lines).encode(), self._address)
