"""Files and pipes: counts, order, bad rows, caps of persons, and ids."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fadecount.errors import InputError, ParameterError
from fadecount.mechanisms import Unit
from fadecount.mechanisms.unit import person_digest
from fadecount.sources import (
    Earlier,
    History,
    Reason,
    SourceOptions,
    check_source,
    files,
    first_bad_row,
    read,
)

HOUR = 3600
CANARY = "kanarie7"


def options(**changes: Any) -> SourceOptions:
    return SourceOptions(**{"tick": HOUR, "time": "time", **changes})


def rows_of(history: History) -> list[tuple[int, int, int]]:
    columns = (history.ticks.tolist(), history.keys.tolist(), history.counts.tolist())
    return list(zip(*columns, strict=True))


def counted(path: Path, chosen: SourceOptions) -> list[tuple[int, int, int]]:
    return rows_of(read(path, chosen))


@pytest.fixture(params=["polars", "standard library"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read CSV in both ways."""
    if request.param == "polars":
        pytest.importorskip("polars")
    monkeypatch.setattr(files, "SMALL_BYTES", -1 if request.param == "polars" else 1 << 60)


def written(folder: Path, text: str | bytes, name: str = "events.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_counts_per_tick_and_key_whatever_the_order_of_the_rows(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "time,noise,key\n1970-01-01T05:59:59Z,x,b\n1970-01-01T02:00:00Z,x,a\n\n1970-01-01T05:00:00Z,x,b\r\n1970-01-01T05:30:00Z,x,a",
    )
    assert counted(path, options(key="key", keys=("a", "b"))) == [(2, 0, 1), (5, 0, 1), (5, 1, 2)]


def test_json_lines_count_the_same(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '{"time": "1970-01-01T05:59:59Z", "key": "b", "n": 2}\n{"key":7,"time":"1970-01-01'
        ' 05:00"}\n',
        "e.jsonl",
    )
    assert counted(path, options(key="key", keys=("b", "7"))) == [(5, 0, 1), (5, 1, 1)]


def test_counts_are_sorted_and_never_shown(tmp_path: Path) -> None:
    path = written(tmp_path, "time\n" + "\n".join(str(tick * HOUR) for tick in (9, 10**6, 3, 9)))
    history = read(path, options(time_unit="s"))
    assert rows_of(history) == [(3, 0, 1), (9, 0, 2), (10**6, 0, 1)]
    assert {each.dtype for each in (history.ticks, history.keys, history.counts)} == {
        np.dtype(np.int64)
    }
    assert (history.first_tick, history.last_tick) == (3, 10**6)
    assert "array" not in repr(history)


def test_days_begin_at_midnight_in_the_zone_and_hours_everywhere_alike(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "time\n2026-03-28T22:59:59Z\n2026-03-28T23:00:00Z\n2026-03-29T21:59:59Z\n2026-03-29T22:00:00Z\n",
    )
    day = 20_540
    assert counted(path, options(tick=86_400)) == [(day, 0, 2), (day + 1, 0, 2)]
    vienna = options(tick=86_400, zone="Europe/Vienna")
    assert counted(path, vienna) == [(day, 0, 1), (day + 1, 0, 2), (day + 2, 0, 1)]
    assert counted(path, options(zone="Europe/Vienna")) == counted(path, options())


def test_amounts_add_up_and_sensitivity_says_what_one_row_can_do(tmp_path: Path) -> None:
    path = written(tmp_path, "time,n\n1970-01-01,3\n1970-01-01,0\n1970-01-01,5.0\n")
    chosen = options(amount="n", max_amount=5)
    assert counted(path, chosen) == [(0, 0, 8)]
    assert chosen.unit == Unit(amount=5)
    capped = options(
        amount="n",
        max_amount=5,
        person="who",
        per_person=3,
        key="k",
        keys=("a", "b"),
        keys_per_person=2,
    )
    assert capped.unit == Unit(of="person", amount=5, events=3, keys=2)


def test_rows_of_one_person_beyond_the_limit_are_dropped_per_tick_over_all_keys(
    tmp_path: Path,
) -> None:
    rows = "0,a,ann\n1,b,ann\n2,a,ann\n3,a,bob\n3600,a,ann\n"
    path = written(tmp_path, "time,key,who\n" + rows)
    chosen = options(time_unit="s", key="key", keys=("a", "b"), person="who", per_person=2)
    assert counted(path, chosen) == [(0, 0, 2), (0, 1, 1), (1, 0, 1)]
    assert read(path, chosen).report.rows_dropped == 1


BAD_ROWS = [
    (b"not a time,a,1,p", Reason.TIME),
    (b"NaN,a,1,p", Reason.TIME),
    (b",a,1,p", Reason.TIME),
    (b"2026-02-30,a,1,p", Reason.TIME),
    (b"2026-03-01,zzz,1,p", Reason.KEY),
    (b"2026-03-01,,1,p", Reason.KEY),
    (b"2026-03-01,a,NaN,p", Reason.AMOUNT),
    (b"2026-03-01,a,1.5,p", Reason.AMOUNT),
    (b"2026-03-01,a,,p", Reason.AMOUNT),
    (b"2026-03-01,a, 1,p", Reason.AMOUNT),
    (b"2026-03-01,a,-1,p", Reason.NEGATIVE),
    (b"2026-03-01,a,1,", Reason.PERSON),
    (b"2026-03-01,a,1", Reason.FIELDS),
    (b"2026-03-01,a,1,p,q", Reason.FIELDS),
    (b'2026-03-01,"a,1,p', Reason.QUOTES),
    (b'2026-03-01,a"b,1,p', Reason.QUOTES),
    (b"2026-03-01,a,1,\xff\xfe", Reason.ENCODING),
    (b"2026-03-01,a,1,\0", Reason.BINARY),
    (b"2026-03-01,a,1," + b"p" * 200, Reason.OVERLONG),
]
ROW_OPTIONS = {
    "key": "key",
    "keys": ("a", "b"),
    "amount": "n",
    "max_amount": 9,
    "person": "who",
    "max_line_bytes": 100,
}


@pytest.mark.parametrize(("row", "reason"), BAD_ROWS)
def test_a_bad_row_is_left_out_by_itself_and_named_to_its_owner_alone(
    tmp_path: Path, row: bytes, reason: Reason
) -> None:
    path = written(
        tmp_path, b'time,key,n,who\n2026-03-01,a,2,"x"\n' + row + b"\n2026-03-01,b,3,y\n"
    )
    reading = read(path, options(**ROW_OPTIONS))
    assert reading.counts.sum() == 5
    assert dict(reading.report.skipped) == {reason: 1}
    assert reading.report.rows_read == 3
    assert reading.report.lines() == [f"1 row left out: {reason.text}"]
    bad = first_bad_row(path, options(**ROW_OPTIONS))
    assert bad == f"events.csv, line 3: {reason.text}; a run leaves this row out"


def test_rows_outside_the_wanted_ticks_are_left_out_and_are_no_mistakes(tmp_path: Path) -> None:
    path = written(tmp_path, "time\n" + "\n".join(str(hour * HOUR) for hour in (1, 5, 6, 7, 9, 9)))
    chosen = options(time_unit="s", first_tick=5, end_tick=7)
    history = read(path, chosen)
    assert rows_of(history) == [(5, 0, 1), (6, 0, 1)]
    assert dict(history.report.skipped) == {Reason.BEFORE: 1, Reason.AFTER: 3}
    assert first_bad_row(path, chosen) is None


def test_a_pipe_of_history_is_read_to_its_end_like_a_file(tmp_path: Path) -> None:
    text = "time,who\n7200,ann\n0,bob\n7201,ann\n"
    chosen = options(time_unit="s", person="who", format="csv")
    history = read(io.BytesIO(text.encode()), chosen)
    assert rows_of(history) == [(0, 0, 1), (2, 0, 1)]
    assert history.report.rows_dropped == 1
    assert rows_of(read(io.BytesIO(b""), chosen)) == []
    with pytest.raises(ParameterError, match="format must be csv, jsonl or log for a pipe"):
        check_source(io.BytesIO(b""), options())
    with pytest.raises(ParameterError, match="time must be"):
        check_source(io.BytesIO(b""), options(time=None, format="csv"))

    class Broken(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(InputError, match="standard input cannot be read: Input/output error"):
        read(Broken(), chosen)


@pytest.mark.usefixtures("reader")
def test_what_earlier_runs_counted_of_a_person_is_part_of_the_limit(tmp_path: Path) -> None:
    path = written(tmp_path, "time,who\n" + "0,ann\n0,ann\n0,bob\n3600,ann\n" * 2)
    chosen = options(time_unit="s", person="who", per_person=3, first_tick=0)
    known = {person_digest("ann", b"k" * 32): 2}
    earlier = Earlier(
        key=b"k" * 32,
        counted=lambda people, _: np.array([known.get(each, 0) for each in people], dtype=np.int64),
    )
    history = read(path, chosen, earlier=earlier)
    assert history.counts.tolist() == [3, 2], "one of ann and two of bob; then two of ann"
    bob = person_digest("bob", b"k" * 32)
    assert history.persons(0) == {next(iter(known)): 1, bob: 2}, "what is new"


@pytest.mark.usefixtures("reader")
def test_what_earlier_runs_counted_of_a_person_under_keys_is_part_of_the_limit(
    tmp_path: Path,
) -> None:
    rows = "0,ann,c\n0,ann,a\n0,ann,b\n0,bob,b\n0,ann,a\n3600,ann,b\n"
    path = written(tmp_path, "time,who,key\n" + rows * 2)
    chosen = options(
        time_unit="s",
        person="who",
        per_person=2,
        key="key",
        keys=("a", "b", "c"),
        keys_per_person=2,
        first_tick=0,
    )
    ann = person_digest("ann", b"k" * 32)
    counts: dict[tuple[bytes, int | str | None], int] = {(ann, None): 1, (ann, 0): 1}

    def known(people: Sequence[bytes], keys: Sequence[int | str] | None) -> npt.NDArray[np.int64]:
        pairs = zip(people, [None] * len(people) if keys is None else keys, strict=True)
        return np.array([counts.get(pair, 0) for pair in pairs], dtype=np.int64)

    earlier = Earlier(key=b"k" * 32, counted=known)
    history = read(path, chosen, earlier=earlier)
    assert rows_of(history) == [(0, 0, 1), (0, 1, 2), (0, 2, 2), (1, 1, 2)], (
        "ann: one more of a, two of c, none of b; bob: two of b"
    )
    bob = person_digest("bob", b"k" * 32)
    noted = {ann: 1, (ann, 2): 2, (ann, 0): 1, bob: 1, (bob, 1): 2}
    assert history.persons(0) == noted, "keys and events that are new"


@pytest.mark.parametrize("line", ["[1]", "{", '{"time": NaN}', "[" * 5000, '"time"', "\ufeff{}"])
def test_lines_that_are_no_json_objects(tmp_path: Path, line: str) -> None:
    path = written(tmp_path, '{"time": 0}\n' + line + "\n", "events.ndjson")
    bad = first_bad_row(path, options(time_unit="s"))
    assert bad is not None and f"line 2: {Reason.OBJECT.text}" in bad


@pytest.mark.parametrize("value", ["true", "null", "{}", "[1]", "1e3"])
def test_json_values_that_are_no_times(tmp_path: Path, value: str) -> None:
    path = written(tmp_path, '{"time": ' + value + "}\n", "events.jsonl")
    bad = first_bad_row(path, options(time_unit="s"))
    assert bad is not None and f"line 1: {Reason.TIME.text}" in bad


def test_a_missing_column_is_named_and_the_header_is_not_echoed(tmp_path: Path) -> None:
    path = written(tmp_path, f"when,{CANARY}\n")
    with pytest.raises(InputError, match=r"the column 'time' is not among its 2 columns") as caught:
        read(path, options())
    assert CANARY not in str(caught.value)
    with pytest.raises(InputError, match="more than once"):
        read(written(tmp_path, "time,time\n"), options())


@pytest.mark.parametrize("header", [b"\xff\n", b'"time\n', b"t" * 200, b"time\0\n"])
def test_an_unreadable_header_is_refused(tmp_path: Path, header: bytes) -> None:
    path = written(tmp_path, header + b"\n1970-01-01\n")
    with pytest.raises(InputError, match="the header cannot be read"):
        read(path, options(max_line_bytes=100))


def test_files_that_are_not_there_or_of_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        check_source(tmp_path / "none.csv", options())
    with pytest.raises(InputError, match="is a folder; name its files"):
        check_source(tmp_path, options())
    with pytest.raises(InputError, match="is not a file"):
        check_source("/dev/null", options())
    assert (
        counted(written(tmp_path, ""), options())
        == counted(written(tmp_path, "\n\n"), options())
        == []
    )
    assert counted(written(tmp_path, "", "e.jsonl"), options()) == []
    with pytest.raises(ParameterError, match="format must be one of"):
        check_source(written(tmp_path, "x", "events.txt"), options())
    with pytest.raises(ParameterError, match="time must be"):
        check_source(written(tmp_path, "x"), options(time=None))
    assert counted(written(tmp_path, b"\xef\xbb\xbftime\n"), options()) == []


def test_a_disk_that_fails_while_reading_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(files, "events", fail)
    with pytest.raises(InputError, match="cannot be read: Input/output error"):
        read(written(tmp_path, '{"time": "2026-03-01"}', "events.jsonl"), options())


def test_an_amount_above_the_largest_is_cut_to_it(tmp_path: Path) -> None:
    path = written(tmp_path, "time,n\n0,3\n0,9\n0,99\n3600,999999999999999999\n")
    chosen = options(time_unit="s", amount="n", max_amount=9)
    reading = read(path, chosen)
    assert reading.counts.tolist() == [21, 9]
    assert (reading.report.rows_cut, reading.report.lines()) == (2, [])
    assert reading.report.consequences() == [
        "2 rows counted with the largest amount: sums are lower"
    ]


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("person", [None, "who"])
def test_a_repeated_id_counts_once_in_its_tick(tmp_path: Path, person: str | None) -> None:
    rows = "0,x,ann\n0,x,ann\n1,y,ann\n3600,x,bob\n0,x,bob\n0,,bob\n3601,x,ann\n"
    path = written(tmp_path, "time,id,who\n" + rows)
    history = read(path, options(time_unit="s", unique="id", person=person, per_person=9))
    counts, repeated = ([3, 2], 1) if person else ([2, 1], 3)
    assert history.counts.tolist() == counts, "x and y; then x again"
    assert dict(history.report.skipped) == {Reason.REPEATED: repeated, Reason.ID: 1}


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("person", [None, "who"])
def test_nobody_pushes_out_the_rows_of_others_by_their_ids(
    tmp_path: Path, person: str | None
) -> None:
    """Eve repeats everybody's ids, first and under another key, and far beyond a cap of one."""
    others = [f"0,{name},{name},a\n" for name in ("ann", "bob", "cleo")]
    eve = [f"0,{name},eve,b\n" for name in ("ann", "bob", "cleo")]
    chosen = options(
        time_unit="s", unique="id", person=person, per_person=1, key="key", keys=("a", "b")
    )
    alone, beside = (
        counted(written(tmp_path, "time,id,who,key\n" + "".join(rows)), chosen)
        for rows in (others, [*eve, *others])
    )
    assert alone == [(0, 0, 3)] and beside == [(0, 0, 3), (0, 1, 1 if person else 3)]


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("late", [None, "drop", "next"])
def test_late_rows_of_a_file(tmp_path: Path, late: str | None) -> None:
    path = written(tmp_path, "time\n" + "\n".join(str(hour * HOUR) for hour in (1, 3, 4, 5, 6, 9)))
    history = read(path, options(time_unit="s", first_tick=5, end_tick=7, late_from=3, late=late))
    assert rows_of(history) == [(5, 0, 3 if late == "next" else 1), (6, 0, 1)]
    before = 1 if late == "next" else 3
    assert dict(history.report.skipped) == {Reason.BEFORE: before, Reason.AFTER: 1}
    assert history.report.consequences() == []


def test_several_files_are_counted_as_one(tmp_path: Path) -> None:
    """Caps and ids hold over all of them, in the order in which they are given."""
    chosen = options(time_unit="s", person="who", per_person=2, unique="id")
    texts = ["7200,ann,a\n0,ann,b\n", "7200,ann,a\n7200,ann,c\n7201,ann,d\n0,bob,e\n"]
    paths = [
        written(tmp_path, "time,who,id\n" + text, f"part{at}.csv") for at, text in enumerate(texts)
    ]
    whole = written(tmp_path, "time,who,id\n" + "".join(texts), "whole.csv")
    together, once = read(paths, chosen), read(whole, chosen)
    assert rows_of(together) == rows_of(once) == [(0, 0, 2), (2, 0, 2)]
    assert together.report == once.report
    assert (once.report.rows_dropped, once.report.skipped) == (1, {Reason.REPEATED: 1})
    assert once.report.consequences() == [
        "1 row left out: beyond the cap of their person",
        "all in all 1 row (20 % of those in the range) do not count: figures are that much too low,"
        " and intervals cover the noise only",
    ]
    assert rows_of(read([], chosen)) == []


def test_a_file_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    """Its rows would count twice, and lose twice what is stated."""
    path = written(tmp_path, "time\n0\n")
    (tmp_path / "link.csv").symlink_to(path)
    for other in (path, tmp_path / "link.csv"):
        with pytest.raises(InputError, match="is given twice; its rows would count, and lose, twi"):
            read([path, other], options(time_unit="s"))


def test_rows_of_persons_who_count_already_make_no_figure_of_persons_too_low(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, "time,who\n0,ann\n60,ann\n0,bob\n0,\n")
    reading = read(path, options(time_unit="s", person="who", person_per="1d"))
    assert reading.counts.tolist() == [2]
    assert reading.report.consequences(options(person="who", person_per="1d").unit) == [
        "1 row of persons who count already",
        "all in all 1 row (25 % of those in the range) do not count: at most that many persons are"
        " missing, and intervals cover the noise only",
    ]
