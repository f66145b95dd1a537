"""Server-sent events: the frames on the wire, and reading them back."""

from __future__ import annotations

from collections.abc import Iterator

MEDIA_TYPE = "text/event-stream"
HEARTBEAT = b": still here\n\n"


def frame(data: str, *, event: str, id: str | None = None) -> bytes:  # noqa: A002 - its name on the wire
    """One event. ``data`` may have several lines; ``id`` is what a client sends back as
    ``Last-Event-ID``.

    >>> frame("hello", event="tick", id="7")
    b'id: 7\\nevent: tick\\ndata: hello\\n\\n'
    """
    lines = [] if id is None else [f"id: {id}"]
    lines += [f"event: {event}", *(f"data: {line}" for line in data.splitlines() or [""])]
    return ("\n".join(lines) + "\n\n").encode()


class Frames:
    """Reads frames out of pieces of bytes, however they were cut: (id, event, data) for each
    complete one."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[tuple[str | None, str, str]]:
        self._rest += piece
        *complete, self._rest = self._rest.split(b"\n\n")
        for block in complete:
            fields: dict[str, list[str]] = {}
            for line in block.decode("utf-8").split("\n"):
                name, _, value = line.partition(":")
                if name:
                    fields.setdefault(name, []).append(value.removeprefix(" "))
            if "data" in fields:
                yield (
                    fields.get("id", [None])[-1],
                    fields.get("event", ["message"])[-1],
                    "\n".join(fields["data"]),
                )
