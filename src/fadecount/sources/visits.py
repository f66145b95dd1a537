"""Visits to a website: which page an address names, who a visitor is, and who is left out; and the
lines of an access log.

The rules are public, and the same for the tag in a page and for access logs.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from urllib.parse import unquote

from fadecount.sources.rows import Reason, Texts

LONGEST_PAGE = 120
"""Characters of a page's path."""

BOTS = re.compile(
    r"(?<!cu)bot\b|crawl|spider|slurp|headless|lighthouse|monitor|preview|scan|fetch|archiver|"
    r"facebookexternalhit|curl|wget|python|java/|okhttp|go-http|libwww|scrapy|httpclient|node",
    re.IGNORECASE,
)
"""What the user agents of programs hold."""

PER_ADDRESS = 4
"""Visitors of one address who count under a page that appears by itself: a household counts whole.
An address that invents visitors makes a page appear on one day in thousands."""

AGENTS = 256
"""Visitors that one address can stand for: a user agent is one of so many."""

_ORIGIN = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_WITH_PORT = re.compile(r"\[([^\]]*)\](?::\d+)?|([\d.]+):\d+")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def page_of(address: str) -> str | None:
    """The page that an address or a path names: its path without query and fragment, its escapes
    decoded, without empty parts and the slash at its end; None where that is no printable text of
    at most 120 characters. An address is one of http or https; anything else is a path.

    >>> page_of("https://example.org/caf%C3%A9//menu/?day=1#top"), page_of("https://example.org")
    ('/café/menu', '/')
    """
    origin = _ORIGIN.match(address)
    path = re.split(r"[?#]", address[origin.end() if origin else 0 :], maxsplit=1)[0]
    try:
        parts = unquote(path, errors="strict").split("/")
    except UnicodeDecodeError:
        return None
    page = "/" + "/".join(part for part in parts if part)
    return page if len(page) <= LONGEST_PAGE and page.isprintable() else None


def address_of(text: str) -> Address | None:
    """The address that a text holds, without the port and the brackets that some proxies write; one
    of IPv4 that is written as IPv6 is that of IPv4. None where the text is no address.

    >>> address_of("203.0.113.9:51234"), address_of("[2001:db8::1]:443"), address_of("unknown")
    (IPv4Address('203.0.113.9'), IPv6Address('2001:db8::1'), None)
    """
    if match := _WITH_PORT.fullmatch(text):
        text = match[1] or match[2] or ""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def customer_of(address: str) -> str:
    """Who has an address: of IPv6 its network of 64 bits. A name, which a log may hold, as it is.

    >>> customer_of("[2001:db8::1]:443"), customer_of("192.0.2.1"), customer_of("example.org")
    ('2001:db8::', '192.0.2.1', 'example.org')
    """
    number = address_of(address)
    if isinstance(number, ipaddress.IPv6Address):
        number = ipaddress.IPv6Address(int(number) >> 64 << 64)
    return str(number or address)


def visitor_of(address: str, agent: str) -> str | None:
    """Who is counted: an address (of IPv6 its network of 64 bits) and one of 256 groups of user
    agents, so that one address never stands for more visitors than that; None for programs.

    >>> visitor_of("2001:db8::1", "Firefox") == visitor_of("2001:db8::2", "Firefox")
    True
    """
    if not agent or BOTS.search(agent):
        return None
    return f"{customer_of(address)} {_group(agent)}"


def _group(agent: str) -> int:
    digest = hashlib.blake2b(agent.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) % AGENTS


_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_REQUEST = re.compile(
    r"(?P<address>\S+) [^\[]*\[(?P<day>\d\d)/(?P<month>[A-Z][a-z]{2})/(?P<year>\d{4})"
    rf":(?P<clock>\d\d:\d\d:\d\d) (?P<offset>[+-]\d{{4}})\] {_QUOTED} (?P<status>\d{{3}}) \S+"
    rf"(?: {_QUOTED} {_QUOTED})?(?: .*)?"
)
"""A line of an access log: common, or combined with the user agent at its end."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FILE = re.compile(r"\.(?!html?$|php$)[^./]*$", re.IGNORECASE)
"""The ending of what is not a page."""


def log_row(text: str, columns: tuple[str, ...]) -> Texts:
    """Those of time, page and visitor of a line of an access log that are named ``columns``. Visits
    are answers 200 to GET for a page: a path whose last part has no ending, or that of a page. A
    page that is no printable text has an empty name. A log without user agents tells visitors apart
    by their addresses, and holds programs too."""
    match = _REQUEST.fullmatch(text)
    if match is None or match["month"] not in _MONTHS:
        return Reason.REQUEST
    request, _, agent = match.groups()[6], *match.groups()[-2:]
    method, _, target = request.partition(" ")
    path = target.partition(" ")[0]
    visitor = visitor_of(match["address"], "unknown" if agent is None else agent.strip("-"))
    is_page = _FILE.search(re.split(r"[?#]", path, maxsplit=1)[0]) is None
    if (method, match["status"]) != ("GET", "200") or visitor is None or not is_page:
        return Reason.VISIT
    month = _MONTHS.index(match["month"]) + 1
    time = f"{match['year']}-{month:02}-{match['day']}T{match['clock']}{match['offset']}"
    row = {"time": time, "page": page_of(path) or "", "visitor": visitor}
    return [row[name] for name in columns]
