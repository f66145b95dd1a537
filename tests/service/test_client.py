"""The client before several processes: one that cannot do it sends it to another."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fadecount as fc


class _Balanced(BaseHTTPRequestHandler):
    """Stands where a balancer does: the process behind the first connection never can, the one behind the second can."""

    protocol_version = "HTTP/1.1"
    connections = 0

    def setup(self) -> None:
        super().setup()
        type(self).connections += 1
        self._can = type(self).connections > 1

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b"{}" if self._can else b'{"code": "unavailable", "detail": "another process leads this stream"}'
        self.send_response(200 if self._can else 503)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_a_repeated_request_takes_another_connection() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Balanced) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with fc.Client(f"http://127.0.0.1:{server.server_port}", attempts=3) as client:
            client.declare("doors", ["c"])
        server.shutdown()
    assert _Balanced.connections == 2
