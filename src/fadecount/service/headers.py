"""What every answer carries, and which host names are answered at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fadecount.service.bodies import Message, Receive, Scope, Send
from fadecount.service.problems import MEDIA_TYPE, Problem, wrong_host

Application = Callable[[Scope, Receive, Send], Awaitable[None]]

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)


class Guard:
    """Wraps an application: refuses foreign host names, adds the security headers to every answer.

    A browser can be made to send requests to any address under a name of an attacker's choosing (DNS rebinding); it cannot be
    made to send another Host. So a name that was not allowed gets 421, before anything else looks at the request.
    """

    def __init__(self, application: Application, hosts: frozenset[str]) -> None:
        self._application = application
        self._hosts = frozenset(host.lower().encode() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *SECURITY_HEADERS]
            await send(message)

        if self.allows(scope):
            await self._application(scope, receive, send_guarded)
        else:
            await send_problem(send_guarded, wrong_host())

    def allows(self, scope: Scope) -> bool:
        """Whether the request names one host, and one that is served here."""
        found = None
        for name, value in scope["headers"]:
            if name == b"host":
                if found is not None:
                    return False
                found = value
        return found is not None and found.lower() in self._hosts


async def send_problem(send: Send, problem: Problem) -> None:
    """Answer with a refusal."""
    headers = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
    await send_bytes(send, problem.status, problem.body(), MEDIA_TYPE, (*headers, (b"cache-control", b"no-store")))


async def send_bytes(
    send: Send, status: int, body: bytes, media_type: str, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    """Answer with a whole body."""
    start = [(b"content-type", media_type.encode()), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def allowed_hosts(host: str, port: int, extra: tuple[str, ...] = ()) -> frozenset[str]:
    """The Host headers to answer: the address listened on, the loopback names, what the operator adds; with and without port."""
    names = {host, "localhost", "127.0.0.1", "[::1]", *extra} - {"0.0.0.0", "::", ""}  # noqa: S104 - not a name anyone may use
    return frozenset(name for each in names for name in (each, f"{each}:{port}"))
