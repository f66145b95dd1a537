"""The public rules of visits: pages, visitors, programs that are left out."""

from __future__ import annotations

import pytest

from fadecount.sources.visits import AGENTS, page_of, visitor_of

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("https://example.org", "/"),
        ("https://example.org/", "/"),
        ("/about/", "/about"),
        ("//cdn//a", "/cdn/a"),
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
