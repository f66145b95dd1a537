"""The public rules of visits: pages, visitors, programs that are left out."""

from __future__ import annotations

import gzip
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from fadecount.errors import InputError
from fadecount.sources import Reason, SourceOptions, read
from fadecount.sources.visits import AGENTS, address_of, log_row, page_of, visitor_of
from tests.sources.test_files import rows_of

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("https://example.org", "/"),
        ("https://example.org/", "/"),
        ("/about/", "/about"),
        ("//cdn//a", "/cdn/a"),
        ("HTTP://example.org/a", "/a"),
        ("ftp://example.org/a", "/ftp:/example.org/a"),
        ("/to/https://example.org/a", "/to/https:/example.org/a"),
        ("https://example.org/a%20b?q=secret#part", "/a b"),
        ("/%E4%B8%AD", "/中"),
        ("/caf%C3%A9", "/café"),
        ("/CaseKept", "/CaseKept"),
        ("/bad%FFescape", None),
        ("/bell%07", None),
        ("/" + "x" * 119, "/" + "x" * 119),
        ("/" + "x" * 120, None),
    ],
)
def test_pages(address: str, page: str | None) -> None:
    assert page_of(address) == page
    if page is not None and "%" not in page:
        assert page_of(page) == page, "the rule changes nothing that it made"


def test_long_addresses_are_read_in_one_pass() -> None:
    """In the square of their length these would take days."""
    long = "//example.org/" + "a" * (1 << 22)
    assert page_of(long) is None
    assert log_row(entry(f"GET {long} HTTP/1.1"), ("page",)) == [""]
    assert address_of("[" + long) is None
    assert address_of("1" * (1 << 22)) is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("203.0.113.9:51234", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:51234", "2001:db8::1"),
        ("[::ffff:203.0.113.9]:1", "203.0.113.9"),
    ],
)
def test_addresses_have_no_port(text: str, address: str) -> None:
    assert str(address_of(text)) == address
    assert visitor_of(text, FIREFOX) == visitor_of(address, FIREFOX)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "unknown",
        "_hidden",
        "[]",
        "[]:1",
        "203.0.113.9:",
        "203.0.113.9:a",
        "1:2",
        "[::1",
        "::1]",
    ],
)
def test_what_is_no_address(text: str) -> None:
    assert address_of(text) is None


def test_visitors_are_addresses_and_agents() -> None:
    assert visitor_of("192.0.2.1", FIREFOX) == visitor_of("::ffff:192.0.2.1", FIREFOX)
    assert visitor_of("192.0.2.1", FIREFOX) != visitor_of("192.0.2.2", FIREFOX)
    assert visitor_of("192.0.2.1", FIREFOX) != visitor_of("192.0.2.1", "Opera/9.80")
    assert visitor_of("2001:db8:0:1::1", FIREFOX) == visitor_of("2001:db8:0:1:ffff::", FIREFOX)
    assert visitor_of("2001:db8:0:1::1", FIREFOX) != visitor_of("2001:db8:0:2::1", FIREFOX)


def test_one_address_is_a_bounded_number_of_visitors() -> None:
    visitors = {visitor_of("192.0.2.1", f"Firefox/{each}") for each in range(5000)}
    assert len(visitors) == AGENTS


@pytest.mark.parametrize(
    "agent",
    [
        "",
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        "Mozilla/5.0 (compatible; bingbot/2.0)",
        "curl/8.5.0",
        "python-requests/2.32",
        "Mozilla/5.0 (X11) HeadlessChrome/130.0",
    ],
)
def test_programs_are_left_out(agent: str) -> None:
    assert visitor_of("192.0.2.1", agent) is None


def test_a_telephone_is_no_program() -> None:
    assert visitor_of("192.0.2.1", "Mozilla/5.0 (Linux; Android 10; CUBOT NOTE 20)") is not None


COMBINED = (
    '{address} - frank [{time} +0100] "{request}" {status} 2326 "https://ref.example/" "{agent}"'
)


def entry(
    request: str = "GET /about/?q=1 HTTP/1.1",
    *,
    address: str = "192.0.2.1",
    time: str = "01/Mar/2026:13:55:36",
    status: int = 200,
    agent: str = FIREFOX,
) -> str:
    return COMBINED.format(address=address, time=time, request=request, status=status, agent=agent)


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        (entry(), ["2026-03-01T13:55:36+0100", "/about"]),
        (entry("GET / HTTP/2.0"), ["2026-03-01T13:55:36+0100", "/"]),
        (entry("GET /a.html HTTP/1.0"), ["2026-03-01T13:55:36+0100", "/a.html"]),
        (entry("GET /v1.2/docs HTTP/1.0"), ["2026-03-01T13:55:36+0100", "/v1.2/docs"]),
        (entry("GET /bad%FF HTTP/1.0"), ["2026-03-01T13:55:36+0100", ""]),
        (entry(r"GET /say\"hi\" HTTP/1.0"), ["2026-03-01T13:55:36+0100", r"/say\"hi\""]),
        (entry("POST / HTTP/1.1"), Reason.VISIT),
        (entry("HEAD / HTTP/1.1"), Reason.VISIT),
        (entry(status=404), Reason.VISIT),
        (entry(status=301), Reason.VISIT),
        (entry("GET /style.css?v=1 HTTP/1.1"), Reason.VISIT),
        (entry("GET /favicon.ico HTTP/1.1"), Reason.VISIT),
        (entry(agent="Googlebot/2.1"), Reason.VISIT),
        (entry(agent="-"), Reason.VISIT),
        (entry("\\x16\\x03", status=400), Reason.VISIT),
        (entry(time="01/Foo/2026:13:55:36"), Reason.REQUEST),
        ("hello", Reason.REQUEST),
        (entry().replace("[", ""), Reason.REQUEST),
    ],
)
def test_lines_of_an_access_log(line: str, texts: list[str] | Reason) -> None:
    assert log_row(line, ("time", "page")) == texts


def test_the_common_format_tells_visitors_apart_by_address() -> None:
    line = '192.0.2.1 - - [01/Mar/2026:13:55:36 +0000] "GET / HTTP/1.0" 200 7'
    other = line.replace(".1 -", ".2 -")
    parse = partial(log_row, columns=("visitor", "time"))
    assert parse(line) == parse(line + " 0.003")
    assert parse(line) != parse(other)
    assert parse(line)[1] == "2026-03-01T13:55:36+0000"  # type: ignore[index]


def test_a_long_line_is_read_quickly() -> None:
    for bad in (
        '1 "' + '\\"' * 30_000,
        "[" * 60_000,
        '1 [01/Mar/2026:13:55:36 +0000] "' + '" "' * 20_000,
    ):
        assert isinstance(log_row(bad, ("page",)), Reason)


def test_packed_logs_and_the_tag_count_alike(tmp_path: Path) -> None:
    """Visitors of each page and day: as a plain loop over the requests counts them."""
    names = {"": "/", "about": "/about", "about/": "/about", "else": "other", "x.css": None}
    requests = [
        (day, page, number % 7) for number, (day, page) in enumerate(product((1, 2), [*names] * 6))
    ]
    lines = [
        entry(f"GET /{page} HTTP/1.1", address=f"192.0.2.{who}", time=f"0{day}/Mar/2026:10:00:00")
        for day, page, who in requests
    ]
    (tmp_path / "a.log").write_text("\n".join(lines[:20]) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "a.log.1.gz", "wt", encoding="utf-8") as packed:
        packed.write("\n".join([*lines[20:], "garbage"]) + "\n")
    options = SourceOptions(
        tick="1d",
        format="log",
        time="time",
        key="page",
        keys=("/", "/about", "other"),
        other="other",
        person="visitor",
        keys_per_person=3,
        person_per="1d",
    )
    history = read([tmp_path / "a.log.1.gz", tmp_path / "a.log"], options)
    counted = {(tick, options.keys[key]): count for tick, key, count in rows_of(history)}
    days = {day: options.ticks.at(datetime(2026, 3, day, tzinfo=UTC).timestamp()) for day in (1, 2)}
    seen = {(days[day], name, who) for day, page, who in requests if (name := names[page])}
    assert counted == Counter((tick, name) for tick, name, _ in seen)
    assert history.report.skipped == {Reason.VISIT: 12, Reason.REQUEST: 1}


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress((entry() + "\n").encode() * 1000)
    for number, body in enumerate((whole[:-20], b"plain", whole[:30] + b"\0" * 9)):
        path = tmp_path / f"{number}.gz"
        path.write_bytes(body)
        options = SourceOptions(tick="1d", format="log", time="time")
        with pytest.raises(InputError, match=r"is damaged: it cannot be unpacked"):
            read(path, options)


def test_columns_of_a_log_are_named() -> None:
    with pytest.raises(ValueError, match="columns must be time, page, visitor for an access log"):
        SourceOptions(tick="1d", format="log", time="at")
