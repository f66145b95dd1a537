"""What polars reads against what the standard library reads: same counts, same reports, same
errors."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fadecount.errors import FadecountError, InputError, MissingExtraError
from fadecount.mechanisms.unit import person_digest
from fadecount.sources import Earlier, Reason, SourceOptions, check_source, files, read
from tests.sources.test_files import BAD_ROWS, ROW_OPTIONS, counted, options, rows_of, written

pl = pytest.importorskip("polars")
from fadecount.sources.columns import regular_lines  # noqa: E402 (polars may be missing)


def outcome(path: Path, chosen: SourceOptions, *, fast: bool) -> object:
    """Counts and report, or the error."""
    with patch.object(files, "SMALL_BYTES", -1 if fast else 1 << 60):
        try:
            history = read(path, chosen)
        except FadecountError as error:
            return type(error), str(error)
    return rows_of(history), history.report


def agree(path: Path, chosen: SourceOptions) -> None:
    assert outcome(path, chosen, fast=True) == outcome(path, chosen, fast=False)


@pytest.mark.parametrize(("row", "reason"), BAD_ROWS)
def test_bad_rows_are_the_same_ones(tmp_path: Path, row: bytes, reason: Reason) -> None:
    lines = [b'2026-03-01,a,2,"x"\n', row + b"\n", b"2026-03-01,b,3,y\n"]
    path = written(tmp_path, b"time,key,n,who\n" + b"".join(lines))
    agree(path, options(**ROW_OPTIONS))
    most = options(**ROW_OPTIONS).max_line_bytes
    together, alone = (
        regular_lines(each, 4, ",", most).tolist() for each in (b"".join(lines), lines[1])
    )
    assert together == [True, *alone, True] and alone == [reason >= Reason.TIME], (
        "polars reads every regular line, and no other"
    )


TIMES = [
    "2026-03-01",
    "2026-03-01T10:00",
    "2026-03-29 02:30:00",
    "2026-03-01T10:00:00.5Z",
    "2026-03-01T10:00:00+0130",
    "1772359200",
]
TIMES += [
    "1772359200123",
    "1772359200.7",
    "2026-02-30",
    "2026-03-01T10:00:00-05",
    "x",
    "",
    "-5",
    "12",
    "2026-10-25T02:30",
    "é",
]
FIELD = st.one_of(
    st.sampled_from(
        [*TIMES, "a", "b", "3", "3.0", "-1", "1.5", "99", '"a"', '"a""b"', '"', "a\rb", "\0"]
    ),
    st.text(max_size=4),
)
ROW = st.one_of(
    st.tuples(
        st.sampled_from(TIMES),
        st.sampled_from(["a", "b", '"b"', "c"]),
        st.sampled_from(["0", "3", "-1", "x"]),
        st.just("p"),
    ),
    st.lists(FIELD, min_size=1, max_size=5).map(tuple),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(ROW, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(
        [{}, {"other": "b"}, {"person": None}, {"first_tick": 492_000, "end_tick": 492_300}]
    ),
    st.sampled_from(
        [
            {},
            {"zone": "Europe/Vienna"},
            {"zone": "Europe/Vienna", "tick": 86_400},
            {"time_unit": "s"},
        ]
    ),
)
def test_any_file_is_read_alike(
    tmp_path: Path, rows: list[Any], ending: str, changes: Any, times: Any
) -> None:
    text = ending.join(["time,key,n,who", *(",".join(row) for row in rows)])
    path = written(tmp_path, text.encode("utf-8", "replace"))
    agree(path, options(**{**ROW_OPTIONS, **changes, **times}))


def test_without_polars_results_are_the_same_and_parquet_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "time,key\n2026-03-01,a\n2026-03-02,b\n")
    chosen = options(key="key", keys=("a", "b"))
    fast = counted(path, chosen)
    monkeypatch.setattr(files, "has_polars", lambda: False)
    assert counted(path, chosen) == fast
    with pytest.raises(
        MissingExtraError, match=r"needs the package polars; .* pip install '\.\[files\]'"
    ):
        check_source(written(tmp_path, "x", "e.parquet"), chosen)


MOMENT = datetime(2026, 3, 1, 10, 30)
SECONDS = 1_772_361_000
TICK = SECONDS // 3600


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([MOMENT], dtype=pl.Datetime("ms")),
        pl.Series([MOMENT], dtype=pl.Datetime("ns")),
        pl.Series([MOMENT.replace(tzinfo=UTC)]).dt.convert_time_zone("Asia/Kathmandu"),
        pl.Series([SECONDS]),
        pl.Series([SECONDS * 1000], dtype=pl.UInt64),
        pl.Series([SECONDS + 0.5]),
        pl.Series(["2026-03-01T10:30Z"]),
        pl.Series(["2026-03-01T10:30Z"], dtype=pl.Categorical()),
    ],
    ids=str,
)
def test_parquet_times_of_every_type(tmp_path: Path, column: Any) -> None:
    path = tmp_path / "events.parquet"
    pl.DataFrame({"time": column, "key": [7], "n": [2.0]}).write_parquet(path)
    assert counted(path, options(key="key", keys=("6", "7"), amount="n", max_amount=3)) == [
        (TICK, 1, 2)
    ]


def test_parquet_dates_and_naive_times_are_local(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pl.DataFrame({"time": [date(2026, 3, 1)], "moment": [MOMENT]}).write_parquet(path)
    assert counted(path, options(zone="Europe/Vienna")) == [(TICK - 11, 0, 1)]
    assert counted(path, options(time="moment", zone="Europe/Vienna")) == [(TICK - 1, 0, 1)]


def test_a_parquet_file_without_rows_has_no_events(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pl.DataFrame(
        {"time": [], "who": []}, schema={"time": pl.String, "who": pl.String}
    ).write_parquet(path)
    assert counted(path, options()) == counted(path, options(person="who")) == []


PARQUET_BAD: list[tuple[dict[str, list[Any]], Reason]] = [
    ({"time": [MOMENT, None]}, Reason.TIME),
    ({"time": [float(SECONDS), float("nan")]}, Reason.TIME),
    ({"time": [float(SECONDS), float("inf")]}, Reason.TIME),
    ({"time": [SECONDS, 5]}, Reason.TIME),
    ({"key": ["a", None]}, Reason.KEY),
    ({"key": ["a", "kanarie7"]}, Reason.KEY),
    ({"n": [1, -2]}, Reason.NEGATIVE),
    ({"n": [1.0, 1.5]}, Reason.AMOUNT),
    ({"n": [1.0, float("nan")]}, Reason.AMOUNT),
    ({"n": [1.0, float("-inf")]}, Reason.AMOUNT),
    ({"n": [1, None]}, Reason.AMOUNT),
    ({"n": [1.0, 1e300]}, Reason.AMOUNT),
    ({"n": ["1", "-1"]}, Reason.NEGATIVE),
    ({"who": ["p", None]}, Reason.PERSON),
    ({"who": ["p", ""]}, Reason.PERSON),
]


@pytest.mark.parametrize(("changes", "reason"), PARQUET_BAD)
def test_parquet_bad_rows(tmp_path: Path, changes: dict[str, list[Any]], reason: Reason) -> None:
    path = tmp_path / "events.parquet"
    good = {"time": [MOMENT, MOMENT], "key": ["a", "b"], "n": [1, 1], "who": ["p", "q"]}
    pl.DataFrame({**good, **changes}).write_parquet(path)
    history = read(path, options(**ROW_OPTIONS))
    assert history.counts.tolist() == [1]
    assert dict(history.report.skipped) == {reason: 1}


def test_parquet_files_that_are_none_or_lack_columns_or_hold_lists(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read(written(tmp_path, b"PAR1 kanarie7 PAR1", "garbage.parquet"), options())
    path = tmp_path / "events.parquet"
    pl.DataFrame({"when": [1], "time": [[1]]}).write_parquet(path)
    with pytest.raises(InputError, match=r"the column 'key' is not among its 2 columns"):
        read(path, options(key="key", keys=("a",)))
    with pytest.raises(InputError, match="the column 'time' is neither text nor numbers"):
        read(path, options())
    pl.DataFrame({"time": list(range(100_000))}).write_parquet(path)
    damaged = bytearray(path.read_bytes())
    damaged[100:2000] = b"\xaa" * 1900
    path.write_bytes(damaged)
    with pytest.raises(FadecountError):
        read(path, options(time_unit="s"))


@pytest.mark.parametrize(
    "body",
    [
        b"2026-03-01\r",
        b"2026-03-01\r\n2026-03-01\n2026-03-01",
        b'"2026-03-01"\r\n"2026-03-01"',
        b'""\n"2026-03-01"\n',
        b'"2026-03-01""\n',
        b'"2026-03-01"x\n',
        b'2026-03-01"\n"',
        b"\n2026-03-01\n",
        b"2026-03-01\n\r\n",
        b"2026-03-01\n\xef\xbb\xbf2026-03-01\n",
        b" 2026-03-01\n",
        b"#2026-03-01\n",
        b"null\n",
    ],
)
def test_endings_and_quotes_at_the_edges(tmp_path: Path, body: bytes) -> None:
    agree(written(tmp_path, b"time\n" + body), options())
    wide = b"\n".join(line + b",a" if line.strip() else line for line in body.split(b"\n"))
    agree(written(tmp_path, b"time,key\n" + wide), options(key="key", keys=("a",)))


@pytest.mark.parametrize(
    "kind", [pl.Int8, pl.UInt8, pl.Int64, pl.UInt64, pl.Float32, pl.Decimal(10, 2), pl.String]
)
def test_parquet_amounts_of_every_type(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "events.parquet"
    pl.DataFrame({"time": [MOMENT, MOMENT], "n": pl.Series([3, 4]).cast(kind)}).write_parquet(path)
    assert counted(path, options(amount="n", max_amount=1 << 31)) == [(TICK, 0, 7)]
    assert counted(path, options(amount="n", max_amount=3)) == [(TICK, 0, 6)]
    for most, cut in ((2, 2), (3, 1), (4, 0)):
        report = read(path, options(amount="n", max_amount=most)).report
        assert (report.rows_read, report.rows_cut) == (2, cut)


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf"), float("-inf")])
def test_persons_that_are_no_number_are_missing_and_not_one_person(missing: float | None) -> None:
    frame = pl.DataFrame({"time": [MOMENT] * 4, "who": [1.0, missing, missing, 2.5]})
    reading = read(frame, options(person="who"))
    assert reading.counts.tolist() == [2]
    assert (dict(reading.report.skipped), reading.report.rows_dropped) == ({Reason.PERSON: 2}, 0)


@pytest.mark.parametrize(
    "kind", [pl.Int8, pl.Int64, pl.Float32, pl.Float64, pl.Decimal(10, 3), pl.String]
)
def test_whole_numbers_are_the_same_persons_and_keys_in_every_type(kind: Any) -> None:
    """A column of whole numbers with one missing value often becomes one of floats: that must not
    rename the others."""
    frame = pl.DataFrame({"time": [MOMENT] * 4, "key": [7, 70, 0, -7], "who": [1, 10, 100, 1]})
    frame = frame.with_columns(pl.col("key", "who").cast(kind))
    seen: list[bytes] = []

    def counted_before(digests: Any, _places: Any) -> Any:
        seen.extend(digests)
        return np.zeros(len(digests), dtype=np.int64)

    chosen = options(key="key", keys=("7", "70", "0", "-7"), person="who", first_tick=TICK)
    reading = read(frame, chosen, earlier=Earlier(key=b"k" * 32, counted=counted_before))
    assert reading.keys.tolist() == [0, 1, 2]
    assert (reading.report.rows_dropped, set(seen)) == (
        1,
        {person_digest(name, b"k" * 32) for name in ("1", "10", "100")},
    )


def test_a_column_may_be_called_number(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pl.DataFrame({"time": [MOMENT, MOMENT], "number": [1, -1]}).write_parquet(path)
    history = read(path, options(amount="number", max_amount=3))
    assert history.report.skipped == {Reason.NEGATIVE: 1}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Vienna", "Pacific/Kiritimati"])
@pytest.mark.parametrize("tick_seconds", [3600, 86_400])
def test_a_time_outside_the_calendar_is_one_bad_row(zone: str, tick_seconds: int) -> None:
    for far in (10**15, -(10**15), 9 * 10**18, -62_135_596_800_000, 253_402_300_799_999):
        frame = pl.DataFrame({"time": pl.Series([SECONDS * 1000, far]).cast(pl.Datetime("ms"))})
        reading = read(frame, options(zone=zone, tick=tick_seconds))
        assert reading.counts.tolist() == [1]
        assert dict(reading.report.skipped) == {Reason.TIME: 1}


@pytest.mark.parametrize("unique", [None, "id"])
def test_files_of_several_formats_share_caps_and_ids(tmp_path: Path, unique: str | None) -> None:
    rows = [(f"a-name-of-many-letters-{who}", who) for who in "aba"]
    paths = [tmp_path / f"events.{ending}" for ending in ("jsonl", "csv", "parquet")]
    frame = pl.DataFrame(
        {"time": [0, 0, 0], "who": [who for who, _ in rows], "id": [name for _, name in rows]}
    )
    frame.write_ndjson(paths[0])
    frame.write_csv(paths[1])
    frame.write_parquet(paths[2])
    chosen = options(time_unit="s", person="who", per_person=4, unique=unique)
    for order in (paths, paths[::-1], [paths[1], paths[0], paths[2]]):
        history = read(order, chosen)
        assert history.counts.tolist() == ([2] if unique else [7])
        dropped, repeated = (0, 7) if unique else (2, 0)
        report = history.report
        assert (report.rows_dropped, report.skipped[Reason.REPEATED]) == (dropped, repeated)
