"""CSV files with messy cells: one line more or less, wherever it stands, changes what that line
counts, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

from fadecount.sources import SourceOptions, SourceReport, columns, files
from fadecount.sources import read as read_source

OPTIONS = SourceOptions(
    tick=3600,
    time="t",
    key="k",
    keys=("a", "b", "é"),
    amount="n",
    max_amount=9,
    max_line_bytes=120,
    zone="Europe/Vienna",
)
HEADERS = (
    b"t,k,n,p\n",
    b"t,k,n,p\r\n",
    b"\xef\xbb\xbft,k,n,p\n",
    b'p,"k",x,t,n\n',
    b"\n\r\nt,k,n,p\n",
)
TIMES = [
    "2026-03-01T10:00:00Z",
    "2026-03-01",
    "2026-03-29T02:30",
    "1772359200",
    "1772359200123",
    "1772359200.75",
    "2026-10-25T02:30:00",
    "2026-03-01T10:00-05",
    "2026-03-01T10:00:00.123456789+0130",
    "2026-03-01T24:00",
    "2026-02-30",
    "20260301",
    "1e9",
    "-5",
    "0x10",
    "+1772359200",
    "1_772_359_200",
    "\u0662\u0660\u0662\u0666-\u0660\u0663-\u0660\u0661",
    "null",
    "NaN",
]
PIECES = (
    b'"',
    b'""',
    b"\r",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xc3",
    b" ",
    b"\t",
    b",",
    b";",
    b"#",
    b"9" * 130,
    b"x^",
    b"x\x01",
    "é\u2028".encode(),
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two files that differ by one line, that line alone under the same header, and how they are
    read."""

    without: bytes
    with_row: bytes
    alone: bytes
    options: SourceOptions


def _line(chance: random.Random, header: bytes) -> bytes:
    """One line without its ending: three in five are fine, the others have something odd in some
    place."""
    key = chance.choice(("a", "a", "b", "b", "é", "c", ""))
    cells = {
        "t": chance.choice(TIMES[:9] if chance.random() < 0.8 else TIMES),
        "k": key,
        "n": chance.choice(("1", "1", "1", "3", "3.0", "2", "9", "0", "10", "-1", "", "1e0")),
        "p": f"p{chance.randrange(4)}",
        "x": "",
    }
    names = header.strip().removeprefix(b"\xef\xbb\xbf").replace(b'"', b"").decode().split(",")
    quoted = chance.random() < 0.2
    line = ",".join(
        f'"{cells[name]}"' if quoted or chance.random() < 0.05 else cells[name] for name in names
    ).encode()
    if chance.random() < 0.6:
        return line
    odd = chance.randrange(6)
    if odd == 0:
        return chance.choice((b"", b"\r", b" ", b'"', b'""', b",,,", b"\0", b"\xef\xbb\xbf"))
    if odd == 1:
        return line + chance.choice((b",", b",x", b"\r", b'"'))
    if odd == 2:
        return line.rpartition(b",")[0]
    if odd == 3:
        return chance.choice((b"\xef\xbb\xbf", b'"', b" ", b"\r")) + line
    at = chance.randrange(len(line) + 1)
    return line[:at] + chance.choice(PIECES) + line[at:]


def pair(seed: int) -> Pair:
    """The pair of a seed."""
    chance = random.Random(seed)
    header = chance.choice(HEADERS)
    rows = [
        _line(chance, header) + chance.choice((b"\n", b"\n", b"\r\n"))
        for _ in range(chance.randrange(1, 25))
    ]
    at = chance.choice((0, len(rows) - 1, chance.randrange(len(rows))))
    cut = chance.random() < 0.3  # the last line has no ending
    options = (
        OPTIONS
        if chance.random() < 0.7
        else replace(OPTIONS, person="p", per_person=chance.choice((1, 2)))
    )
    if chance.random() < 0.3:
        options = replace(options, other="b", first_tick=492_300)

    def made(lines: list[bytes]) -> bytes:
        body = b"".join(lines)
        return header + (body.removesuffix(b"\n") if cut else body)

    return Pair(made(rows[:at] + rows[at + 1 :]), made(rows), made([rows[at]]), options)


def read(
    path: Path, data: bytes, options: SourceOptions, *, fast: bool
) -> tuple[Counter[tuple[int, int]], SourceReport]:
    """What a file with these bytes counts."""
    path.write_bytes(data)
    with patch.object(files, "SMALL_BYTES", -1 if fast else 1 << 60):
        found = read_source(path, options)
    places = zip(found.ticks.tolist(), found.keys.tolist(), strict=True)
    return Counter(dict(zip(places, found.counts.tolist(), strict=True))), found.report


def violations(seed: int, path: Path, *, block_bytes: int = 256) -> tuple[list[str], bool]:
    """In which ways the two files of a seed differ by more than the one line, and whether that line
    counts at all.

    Blocks are tiny, so that lines stand at their beginnings, across them and at their ends.
    """
    made, found = pair(seed), []
    with patch.object(columns, "BLOCK_BYTES", block_bytes):
        read_by = {
            fast: [
                read(path, data, made.options, fast=fast)
                for data in (made.without, made.with_row, made.alone)
            ]
            for fast in (True, False)
        }
    if read_by[True] != read_by[False]:
        found.append("the readers differ")
    for fast, ((without, before), (with_row, after), (alone, own)) in read_by.items():
        how = "polars" if fast else "plain"
        if (
            after.rows_read != before.rows_read + own.rows_read
            or after.skipped != before.skipped + own.skipped
        ):
            found.append(f"{how}: the report on other rows differs")
        changes = {
            place: with_row[place] - without[place] for place in with_row.keys() | without.keys()
        }
        changes = {place: change for place, change in changes.items() if change}
        if made.options.person is None:
            if changes != {place: count for place, count in alone.items() if count}:
                found.append(f"{how}: counts of other rows move")
        elif (
            len({tick for tick, _ in changes}) > 1
            or sum(map(abs, changes.values())) > 2 * made.options.max_amount
        ):
            found.append(f"{how}: counts of other persons move")
    return found, bool(read_by[True][2][0])
