"""A proxy that loses answers: the request arrives, what the service says about it does not."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class LossyProxy:
    """Forwards one request per connection and drops every n-th answer."""

    def __init__(self, port: int, *, lose_every: int) -> None:
        self._target, self._lose_every = port, lose_every
        self._served = 0
        self.lost = 0

    def __enter__(self) -> Self:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._forward(self._listening.accept()[0])

    def _forward(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target), timeout=10) as server:
            own = self.url.removeprefix("http://").encode()
            request = _message(client).replace(own, f"127.0.0.1:{self._target}".encode())
            server.sendall(request)
            answer = _message(server)
            self._served += 1
            if self._served % self._lose_every == 0:
                self.lost += 1
            else:
                client.sendall(answer.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))


def _message(source: socket.socket) -> bytes:
    """One message with a Content-Length."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += source.recv(65536)
    head, _, body = found.partition(b"\r\n\r\n")
    lengths = [
        int(line.split(b":")[1])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    ]
    while len(body) < (lengths or [0])[0]:
        body += source.recv(65536)
    return head + b"\r\n\r\n" + body
