"""Fuzzing of the readers: no input may crash them, none may find its way into a message, and
skipping must add up.

``python -m campaigns.sources.fuzz --inputs 1000000`` mutates bytes; ``--differential 2000``
compares the fast CSV reader with the plain one instead; ``python -m campaigns.sources.guided`` does
the first under coverage guidance. A finding is an AssertionError (or whatever escaped), with the
input that caused it.
"""

from __future__ import annotations

import argparse
import io
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fadecount.errors import FadecountError
from fadecount.sources import History, SourceOptions, read
from fadecount.sources.live import LiveReading
from fadecount.sources.options import Format

CANARY = "kanarie7"
NAMES = {"time": "t", "key": "k", "keys": ("a", "b"), "amount": "n", "max_amount": 9, "person": "p"}
KINDS: list[tuple[Format, SourceOptions]] = [
    ("csv", SourceOptions(tick=3600, time="t", max_line_bytes=256)),
    ("csv", SourceOptions(tick=3600, **NAMES, max_line_bytes=256)),  # type: ignore[arg-type]
    (
        "csv",
        SourceOptions(
            tick=86_400,
            time="t",
            time_unit="ms",
            zone="Europe/Vienna",
            key="k",
            keys=("a",),
            other="a",
        ),
    ),
    ("jsonl", SourceOptions(tick=3600, **NAMES, max_line_bytes=256)),  # type: ignore[arg-type]
    ("jsonl", SourceOptions(tick=60, time="t", zone="America/New_York")),
]
SEEDS = [
    (
        b"\x00t\n2026-03-01T10:00:00Z\n1772359200\n1772359200123\nkanarie7\n2026-03-01"
        b" 10:00:00.5+01:00\n"
    ),
    b'\x01t,k,n,p\n2026-03-01,a,1,x\r\n2026-03-01,"b",3,kanarie7\n2026-03-01,kanarie7,3,x\n2026-03-01,a,kanarie7,x\n2026-03-01,a,-1,x\n',
    b"\x02k,t\na,1772359200123\nkanarie7,5\nb,-5.5\n",
    b'\x03{"t":"2026-03-01","k":"a","n":1,"p":"x"}\n{"t":1772359200,"k":"kanarie7","n":"kanarie7","p":null}\n[1]\n',
    b'\x04{"t": 1772359200.5}\n{"t": "2026-03-01T10:00"}\n{"t": NaN}\n{"kanarie7": {"t": [1e5]}}\n',
    b"\x81kanarie7,k,n,p\n",
    b"\x00\xef\xbb\xbft\n\n\xff\xfe\n\0\n" + b"9" * 300 + b"\n2026-02-30\n",
]
PIECES = [
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    b"kanarie7",
    b"2026-03-01",
    b"-",
    b".",
    b"1e9",
    b"{",
    b"}",
    b"[",
    b":",
    b"9" * 40,
    b"T10:00",
]
MESSAGE = re.compile(
    r"(?:fuzz|standard input)(?:, line 1: the header cannot be read; a CSV file begins with the"
    r" names of its columns"
    r"|: the column '[tknp]' is (?:not|more than once) among its \d+ columns; check its name"
    r"(?: and the separator)?)"
)


def check(data: bytes) -> None:
    """Read one input in every way; raises if a promise is broken. The first byte chooses the
    options."""
    choice, body = (data[0], data[1:]) if data else (0, b"")
    kind, options = KINDS[(choice & 0x3F) % len(KINDS)]
    history = _attempt(body, kind, options)
    if history is not None:
        report, total = history.report, int(history.counts.sum())
        good = report.rows_read - report.rows_skipped - report.rows_dropped
        assert total <= good * options.max_amount
        assert options.amount is not None or total == good, "rows were lost or counted twice"
    if choice & 0x80:
        _live(body, kind, options)


def _attempt(body: bytes, kind: Format, options: SourceOptions) -> History | None:
    try:
        return read(io.BytesIO(body), replace(options, format=kind))
    except FadecountError as error:
        _check_error(error)
        return None


def _live(body: bytes, kind: Format, options: SourceOptions) -> None:
    reading = LiveReading(
        io.BytesIO(body),
        replace(options, format=kind),
        clock=lambda: 1_800_000_000.0,
        open_tick=0,
        source="fuzz",
    )
    last = None
    try:
        for batch in reading:
            assert last is None or batch.open_tick >= last, "ticks went back"
            last = batch.open_tick
            assert all(row[0] >= last for row in batch.rows), (
                "an event counts in a tick that is over"
            )
    except FadecountError as error:
        _check_error(error)


def _check_error(error: FadecountError) -> None:
    message = str(error)
    assert MESSAGE.fullmatch(message), "a message outside the known ones"
    assert CANARY not in message
    assert error.__context__ is None and error.__cause__ is None, (
        "an inner error could show the value"
    )


def mutations(seed: int, seeds: list[bytes] | None = None) -> Iterator[bytes]:
    """An endless row of inputs: seeds, cut, spliced and sprinkled."""
    chance = random.Random(seed)
    pool = seeds or SEEDS
    while True:
        data = bytearray(chance.choice(pool))
        if chance.random() < 0.2:
            data = data[: chance.randrange(len(data))] + chance.choice(pool)[chance.randrange(20) :]
        for _ in range(chance.randrange(6)):
            at = chance.randrange(len(data) + 1)
            action = chance.randrange(4)
            if action == 0:
                data[at:at] = chance.choice(PIECES)
            elif action == 1:
                del data[at : at + chance.randrange(1, 12)]
            elif action == 2 and at < len(data):
                data[at] = chance.randrange(256)
            else:
                data[at:at] = data[at // 2 : at // 2 + chance.randrange(40)]
        if chance.random() < 0.1:
            data[:1] = bytes([0x80 | chance.randrange(64)])
        yield bytes(data)


def run_loop(inputs: int, seed: int) -> None:
    """The campaign without coverage guidance."""
    for _, data in zip(range(inputs), mutations(seed), strict=False):
        try:
            check(data)
        except BaseException:
            print("input:", data, file=sys.stderr)
            raise


def run_differential(inputs: int, seed: int) -> None:
    """Fast and plain CSV readers on the same mutated files."""
    from tests.sources.test_columns import agree

    csv_seeds = [each for each in SEEDS if each[0] in (0, 1, 2)]
    csv_seeds += [
        b"\x00t\n2026-03-01\n2026-03-02T10:00\n",
        b"\x01t,k,n,p\n2026-03-01,a,1,x\n2026-03-02,b,2,y\n",
        b"\x02k,t\na,5\n",
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzz"
        for _, data in zip(range(inputs), mutations(seed, csv_seeds), strict=False):
            kind, options = KINDS[(data[0] if data else 0) % 3]
            assert kind == "csv"
            path.write_bytes(data[1:])
            try:
                agree(path, options)
                agree(path, replace(options, first_tick=0, end_tick=1 << 20))
            except BaseException:
                print("input:", data, file=sys.stderr)
                raise


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument(
        "--differential",
        type=int,
        default=0,
        metavar="INPUTS",
        help="compare the two CSV readers instead",
    )
    parser.add_argument("--seed", type=int, default=int(time.time()) & 0xFFFF)
    chosen = parser.parse_args(words)
    start = time.monotonic()
    print(f"seed {chosen.seed}", flush=True)
    if chosen.differential:
        run_differential(chosen.differential, chosen.seed)
        print(
            f"{2 * chosen.differential:,} comparisons, {time.monotonic() - start:.0f} s: they agree"
        )
        return 0
    run_loop(chosen.inputs, chosen.seed)
    print(f"{chosen.inputs:,} inputs, {time.monotonic() - start:.0f} s: no crash, no echo")
    return 0


if __name__ == "__main__":
    sys.exit(main())
