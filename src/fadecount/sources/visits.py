"""Visits to a website: which page an address names, who a visitor is, and who is left out.

The rules are public, and the same for the tag in a page and for access logs.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from urllib.parse import unquote

LONGEST_PAGE = 120
"""Characters of a page's path."""

BOTS = re.compile(
    r"(?<!cu)bot\b|crawl|spider|slurp|headless|lighthouse|monitor|preview|scan|fetch|archiver|"
    r"facebookexternalhit|curl|wget|python|java/|okhttp|go-http|libwww|scrapy|httpclient|node",
    re.IGNORECASE,
)
"""What the user agents of programs hold."""

AGENTS = 256
"""Visitors that one address can stand for: a user agent is one of so many."""

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#]*", re.IGNORECASE)


def page_of(address: str) -> str | None:
    """The page that an address or a path names: its path without query and fragment, its escapes
    decoded, without empty parts and the slash at its end; None where that is no printable text of
    at most 120 characters.

    >>> page_of("https://example.org/caf%C3%A9//menu/?day=1#top"), page_of("https://example.org")
    ('/café/menu', '/')
    """
    path = re.split(r"[?#]", _ORIGIN.sub("", address, count=1), maxsplit=1)[0]
    try:
        parts = unquote(path, errors="strict").split("/")
    except UnicodeDecodeError:
        return None
    page = "/" + "/".join(part for part in parts if part)
    return page if len(page) <= LONGEST_PAGE and page.isprintable() else None


def visitor_of(address: str, agent: str) -> str | None:
    """Who is counted: an address (of IPv6 its network of 64 bits) and one of 256 groups of user
    agents, so that one address never stands for more visitors than that; None for programs.

    >>> visitor_of("2001:db8::1", "Firefox") == visitor_of("2001:db8::2", "Firefox")
    True
    """
    if not agent or BOTS.search(agent):
        return None
    try:
        number = ipaddress.ip_address(address)
    except ValueError:  # a log may hold names
        return f"{address} {_group(agent)}"
    if isinstance(number, ipaddress.IPv6Address):
        number = number.ipv4_mapped or ipaddress.IPv6Address(int(number) >> 64 << 64)
    return f"{number} {_group(agent)}"


def _group(agent: str) -> int:
    digest = hashlib.blake2b(agent.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) % AGENTS
