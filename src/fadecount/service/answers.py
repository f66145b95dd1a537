"""Answers: JSON and CSV, with an entity tag, and for how long they may be kept."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

FOR_EVER = "max-age=31536000, immutable"
FRESH = "no-cache"
NEVER = "no-store"


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def json_answer(value: Any, *, status: int = 200, cache: str = NEVER) -> Response:
    return Response(as_json(value), status, {"Cache-Control": cache}, "application/json")


def tagged(request: Request, body: bytes, media_type: str, *, closed: bool, public: bool) -> Response:
    """An answer with an entity tag: 304 if the client has it. A closed range never changes, so it may be kept for ever."""
    tag = f'"{hashlib.sha256(media_type.encode() + body).hexdigest()[:32]}"'
    scope = "public" if public else "private"
    headers = {"ETag": tag, "Cache-Control": f"{scope}, {FOR_EVER if closed else FRESH}", "Vary": "Accept, Authorization"}
    known = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
    if tag in known:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)


def as_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


def wants_csv(request: Request) -> bool:
    """Whether ``Accept`` asks for CSV and not for JSON before it."""
    kinds = [each.partition(";")[0].strip().lower() for each in request.headers.get("accept", "").split(",")]
    return "text/csv" in kinds and "application/json" not in kinds[: kinds.index("text/csv")]
