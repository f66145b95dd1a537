"""Visits to websites: the route to which a tag in a page reports, and the streams that count them.

Anybody may send a visit, so the answer is the same whatever was sent, and comes before anything is
counted: neither its text nor its time says whether a page or a visitor was there before.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fadecount.calendar import DAY
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms import Blocks, Discovery, Level, Unit
from fadecount.service.http import (
    ANY_ORIGIN,
    EMBEDDED_HEADERS,
    Problem,
    Request,
    Response,
)
from fadecount.service.parsing import Event, SentEvents, Visit
from fadecount.service.writer import Leader, Writer
from fadecount.sources.visits import PER_ADDRESS, address_of, page_of, visitor_of
from fadecount.streams import Description, Group, Ticks
from fadecount.streams.description import ONLY_KEY
from fadecount.streams.discovery import HiddenKeys

log = logging.getLogger("fadecount.service")
LARGEST_VISIT = 4096
"""Bytes of the body of a visit."""

PAGEVIEW = "pageview"

DELTA = 1e-6
"""The chance that a page appears which one visitor alone saw on a day, at most."""

_VISIT = msgspec.json.Decoder(Visit)
_DOMAIN = re.compile(r"(?=.{1,80}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_TEXT: Any = ((b"content-type", b"text/plain"), (b"cache-control", b"no-store"))
ACCEPTED = Response(b"ok", 202, (*_TEXT, ANY_ORIGIN), EMBEDDED_HEADERS)
PREFLIGHT = Response(
    b"",
    204,
    (
        ANY_ORIGIN,
        (b"access-control-allow-methods", b"POST"),
        (b"access-control-allow-headers", b"content-type"),
        (b"access-control-max-age", b"86400"),
    ),
    EMBEDDED_HEADERS,
)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
LATER_DAYS = 8
GROUP_LOSS = {"7d": 2.0, "ever": 4.0}
"""What one visitor's day loses by all streams of a website together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """One of the streams of a website: its unit, and what one visitor's day loses by the figure of
    a day when it is over, by its later stage, and by figures of hours (0: there are none); and
    whether keys appear by themselves, in the same stages."""

    unit: Unit
    day: float
    later: float
    hour: float = 0.0
    discovers: bool = False

    @property
    def ticks_per_day(self) -> int:
        return 24 if self.hour else 1

    def described(self, name: str, websites: Websites, group: Group) -> Description:
        """The stream of a website."""
        length, unit = self.ticks_per_day, self.unit
        hour, day, later = (
            round(loss / unit.sensitivity, 6) for loss in (self.hour, self.day, self.later)
        )
        days = Level(length, day, later=((LATER_DAYS * length, later),))
        hidden = None
        if self.discovers:
            stages = ((0, day), (LATER_DAYS * length, later))
            discovery = Discovery("1d", stages, DELTA, unit.keys)
            sample = 1.0 if websites.sample is None else websites.sample
            hidden = HiddenKeys(discovery=discovery, sample=sample, per_address=PER_ADDRESS)
        return Description(
            name=name,
            mechanism=Blocks(Level(1, hour), days) if hour else Blocks(days),
            ticks=Ticks(tick_seconds=DAY // length, zone=websites.zone or "UTC"),
            unit=unit,
            group=group,
            hidden=hidden,
        )


STREAMS = {
    "visits": Counting(unit=Unit(of="person", events=10, per="1d"), day=0.4, later=0.8),
    "visitors": Counting(unit=Unit(of="person", per="1d"), day=0.2, later=0.3, hour=0.1),
    "pages": Counting(unit=Unit(of="person", keys=3, per="1d"), day=1.3, later=2.8, discovers=True),
}
"""What is counted: at most 10 visits of a visitor in a day, visitors once a day, and under each of
at most 3 pages once a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Websites:
    """The websites whose visits are counted: their domains, pages that are declared, other hosts
    that may report, proxies whose word about addresses is taken, where days begin, and which part
    of all other pages can appear. The last two are fixed once a website is there: None is what it
    has, or UTC and all of them."""

    domains: Sequence[str] = ()
    pages: Sequence[str] = ()
    hosts: Sequence[str] = ()
    proxies: Sequence[Network] = ()
    zone: str | None = None
    sample: float | None = None

    def __post_init__(self) -> None:
        for domain in self.domains:
            if not _DOMAIN.fullmatch(domain):
                bound = "a domain in small letters, of at most 80 characters"
                raise bad_parameter("website", domain, bound, "such as example.org")
        if self.sample is not None and not 1e-9 <= self.sample <= 1.0:
            remedy = "it is the part of all undeclared pages that can appear"
            raise bad_parameter("page_sample", self.sample, "from 1e-9 to 1", remedy)
        for domain in self.domains:
            list(self.streams(domain))  # refused before any of them is created
        for page in self.pages:
            if page_of(page) != page:
                raise bad_parameter("page", page, "a path as it is counted", f"try {page_of(page)}")

    def tag(self, domain: str, address: str) -> str:
        """What goes into the pages of a website, where the service is at an address."""
        return f'<script defer data-domain="{domain}" src="{address}fadecount.js"></script>'

    @property
    def promise(self) -> str:
        """What visitors are promised, in a sentence."""
        return (
            "the promise: all that is ever published about one visitor's day, an address and a"
            " browser, has a privacy loss (ε) of"
            f" {Group.of('website', GROUP_LOSS).text}, except with a chance of {DELTA:g} that a"
            " page appears which nobody else saw that day; the key to who it was is destroyed with"
            " the day"
        )

    def reports(self, host: str | None, domain: str) -> bool:
        """Whether pages of a host may report visits to a website: its own and its subdomains'."""
        return host is not None and (
            host == domain or host.endswith(f".{domain}") or host in self.hosts
        )

    def address(self, request: Request) -> str:
        """The address of a client: the last in the chain of addresses that is not a proxy's."""
        forwarded = request.headers.get("x-forwarded-for", "").split(",")
        chain = [*(each.strip() for each in forwarded if each.strip()), request.address]
        while len(chain) > 1 and _is_in(chain[-1], self.proxies):
            chain.pop()
        return chain[-1]

    def create(self, leader: Leader) -> None:
        """Create the streams that are missing, and declare the pages that are new. Refused if one
        that is there has another zone or another sample."""
        wanted = [each for domain in self.domains for each in self.streams(domain)]
        for described, _ in wanted:
            if (known := leader.description(described.name)) is not None:
                self._require_same(known)
        for described, keys in wanted:
            name = described.name
            if not leader.has(name):
                leader.create(described, keys)
            elif described.hidden is not None and leader.state(name) != "refused":
                try:
                    leader.declare(name, keys)
                except Problem as problem:  # another process leads it
                    log.error("pages of stream %s are not declared: %s", name, problem.detail)

    def _require_same(self, known: Description) -> None:
        """Refuse what a stream of a website is not."""
        sample = self.sample if known.hidden is None else known.hidden.sample
        for what, given, fixed in (
            ("zone", self.zone, known.ticks.zone),
            ("page_sample", self.sample, sample),
        ):
            if given not in (None, fixed):
                bound = f"{fixed}, with which stream {known.name} began"
                raise bad_parameter(what, given, bound, "leave it out: it cannot change")

    def streams(self, domain: str) -> Iterator[tuple[Description, list[str]]]:
        """The streams of a website, with their declared keys."""
        group = Group.of(domain, GROUP_LOSS)
        for kind, counting in STREAMS.items():
            keys = list(dict.fromkeys(("/", *self.pages))) if counting.discovers else [ONLY_KEY]
            yield counting.described(stream_name(domain, kind), self, group), keys


def stream_name(domain: str, kind: str) -> str:
    """The name of a website's stream; no domain has an underscore."""
    return f"{domain}_{kind}"


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Addresses and networks of proxies, checked."""
    try:
        return tuple(ipaddress.ip_network(each) for each in texts)
    except ValueError:
        raise ParameterError(
            "trusted proxies must be addresses or networks; such as 127.0.0.1 or 10.0.0.0/8"
        ) from None


def _is_in(address: str, among: Sequence[Network]) -> bool:
    number = address_of(address)
    return number is not None and any(number in network for network in among)


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitContext:
    """What the route of visits works with."""

    websites: Websites
    writer: Writer

    def count(self, domain: str, page: str | None, visitor: str) -> None:
        """Queue a visit for the streams of a website. Nobody is told what comes of it."""
        with suppress(Problem):
            for kind, counting in STREAMS.items():
                key = page if counting.discovers else ONLY_KEY
                if key:
                    sent = SentEvents({Event(key): 1}, visitor)
                    name = stream_name(domain, kind)
                    future = self.writer.accept(name, sent, None, of_stranger=True)
                    future.add_done_callback(lambda done: done.cancelled() or done.exception())


async def post_visit(context: VisitContext, request: Request) -> Response:
    """Count a visit to a page of a website that is served here (`pageview` in the form of
    Plausible's events). The answer never says what was counted."""
    if (sent := _sent(request.body)) is not None:
        websites, headers = context.websites, request.headers
        domain, url = (sent.domain or sent.d).lower(), sent.url or sent.u
        address = websites.address(request)
        visitor = visitor_of(address, headers.get("user-agent", ""))
        if (
            (sent.name or sent.n) == PAGEVIEW
            and domain in websites.domains
            and websites.reports(_host(url), domain)
            and websites.reports(_host(headers.get("origin", url)), domain)
            and visitor is not None
            and address_of(address) is not None
            and "1" not in (headers.get("dnt"), headers.get("sec-gpc"))
        ):
            context.count(domain, page_of(url), visitor)
    return ACCEPTED


def _sent(body: bytes) -> Visit | None:
    """What was sent; None where it is not JSON in UTF-8, or no visit, or nested too deeply."""
    try:
        return _VISIT.decode(body)
    except (ValueError, RecursionError):  # a msgspec.DecodeError is a ValueError
        return None


async def allow_visit(_context: VisitContext, _request: Request) -> Response:
    """Browsers ask whether a page may report visits."""
    return PREFLIGHT


def _host(url: str) -> str | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts.hostname if parts.scheme in ("http", "https") else None
