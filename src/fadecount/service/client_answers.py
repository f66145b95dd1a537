"""What the service says, as the client hands it on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fadecount.errors import FadecountError


class ServiceError(FadecountError):
    """The service refused a request, or could not be reached. ``status`` is 0 in the latter case."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code = status, code


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """What is public about a stream."""

    name: str
    tick_seconds: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCount:
    """A released count: 95 % of the time the true one lies from ``low`` to ``high``."""

    start: str
    key: str
    value: int
    low: int
    high: int


def stream_info(fields: Mapping[str, Any]) -> StreamInfo:
    return StreamInfo(name=fields["name"], tick_seconds=fields["tick_seconds"], keys=tuple(fields["keys"]))


def counts_of(fields: Mapping[str, Any]) -> list[PublishedCount]:
    return [PublishedCount(start=fields["start"], **each) for each in fields["releases"]]


def failure_of(status: int, content: bytes) -> ServiceError:
    try:
        fields = json.loads(content)
        return ServiceError(status, str(fields["code"]), str(fields["detail"]))
    except (ValueError, KeyError, TypeError):
        return ServiceError(status, "unknown", f"the service answered with status {status}")
