"""Bodies that a hostile or broken client sends. Each holds a canary that must not come back."""

from __future__ import annotations

CANARY = "xq7canary"
_EVENT = '{"events":[{"key":"%s","count":%s}]}'


def _count(text: str) -> bytes:
    return (_EVENT % (CANARY, text)).encode()


HOSTILE_BODIES: tuple[bytes, ...] = (
    b"",
    b" ",
    f'"{CANARY}"'.encode(),
    f"{{{CANARY}".encode(),
    f'{{"events": "{CANARY}"}}'.encode(),
    b'{"events": []}',
    f'{{"events": [], "{CANARY}": 1}}'.encode(),
    f'{{"events": [["{CANARY}"]]}}'.encode(),
    f'{{"events": [{{"key": "{CANARY}", "count": 1, "{CANARY}": 2}}]}}'.encode(),
    f'{{"events": [{{"key": "{CANARY}"}}], "events": []}}'.encode(),
    _count("NaN"),
    _count("Infinity"),
    _count("-Infinity"),
    _count("1e999"),
    _count("-1e999"),
    _count("1.5"),
    _count("1.0"),
    _count("1e2"),
    _count("-1"),
    _count("true"),
    _count("false"),
    _count("null"),
    _count('"3"'),
    _count("[3]"),
    _count("9" * 30),
    _count("9" * 5000),
    _count("0." + "1" * 5000),
    _count("00"),
    _count("0x10"),
    _count("1_000"),
    f'{{"events":[{{"key":{{"{CANARY}":1}},"count":1}}]}}'.encode(),
    f'{{"events":[{{"key":"{CANARY * 40}","count":1}}]}}'.encode(),
    b'{"events":[{"key":"\\ud800' + CANARY.encode() + b'","count":1}]}',
    b'{"events":[{"key":"\xff\xfe' + CANARY.encode() + b'","count":1}]}',
    b"\xef\xbb\xbf" + _count("1"),
    b"[" * 100_000 + CANARY.encode(),
    b'{"a":' * 5000 + b"1" + b"}" * 5000,
    _count("1") + b"{}",
    _count("1") + b"\x00",
    f'{{"events":[{{"key":"{CANARY}","count":1}},]}}'.encode(),
    f"{{'events':[{{'key':'{CANARY}'}}]}}".encode(),
    f'/* {CANARY} */ {{"events":[]}}'.encode(),
)
