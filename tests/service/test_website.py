"""Visits of a website: who may send them, what counts, and that no answer says so."""

from __future__ import annotations

import asyncio
import io
import json
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import fadecount.service.website as website
from fadecount.cli.main import main
from fadecount.mechanisms import Blocks, Discovery, Level
from fadecount.runs import run
from fadecount.service.http import Request
from fadecount.service.website import LARGEST_VISIT, STREAMS, Websites, networks, stream_name
from fadecount.sources import SourceOptions
from fadecount.sources.visits import AGENTS, PER_ADDRESS, visitor_of
from tests.service.harness import Harness, Reply
from tests.service.hostile import HOSTILE_BODIES
from tests.service.process import ServeProcess

AGENT = "Mozilla/5.0 (X11; Linux x86_64) Firefox/130.0"
SITE = "example.org"
EXACT = 2.0**12


def exact_site(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    """A public service of a website behind a proxy, with so much budget that figures are exact."""
    exact = {
        kind: replace(each, hour=EXACT * each.unit.sensitivity, day=EXACT, later=2 * EXACT)
        for kind, each in STREAMS.items()
    }
    monkeypatch.setattr(website, "STREAMS", exact)
    monkeypatch.setattr(website, "GROUP_LOSS", {"ever": 1e7})
    websites = Websites(
        domains=(SITE, "localhost"),
        pages=("/about", "/café"),
        hosts=("staging.test",),
        proxies=networks(["127.0.0.1"]),
    )
    return Harness(folder, public=True, websites=websites)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    with exact_site(tmp_path, monkeypatch) as harness:
        yield harness


def visit(
    harness: Harness,
    path: str = "/",
    *,
    address: str = "192.0.2.1",
    agent: str = AGENT,
    body: Mapping[str, object] | bytes | None = None,
    **headers: str,
) -> Reply:
    sent = {"name": "pageview", "url": f"https://{SITE}{path}", "domain": SITE}
    sent = sent if body is None else body  # type: ignore[assignment]
    return harness.request(
        "POST",
        "/api/event",
        sent if isinstance(sent, bytes) else json.dumps(sent),
        **{"x_forwarded_for": address, "user_agent": agent, "content_type": "text/plain"} | headers,
    )


def counts(harness: Harness, domain: str = SITE) -> dict[str, int]:
    """What was counted in the open tick: visits, visitors, and each page with any."""
    service = harness.service

    async def written() -> None:
        await service.writer.call(lambda leader: None)

    asyncio.run_coroutine_threadsafe(written(), service._loop).result(20)
    names = [stream_name(domain, kind) for kind in STREAMS]
    harness.close_tick(name=names[0])
    found = {}
    for name in names:
        harness.wait_closed(name)
        page = harness.request("GET", f"/v1/streams/{name}/figures?per=1h").json()
        last = page["figures"][-1]["start"]
        for each in page["figures"]:
            if each["start"] == last and each["value"]:
                key = each["key"]
                found[key if key != "all" else name.rpartition("_")[2]] = each["value"]
    return found


def test_a_visit_counts_in_each_stream(site: Harness) -> None:
    for path in ("/", "/about/?from=mail", "/about", "/caf%C3%A9", "/nobody/declared/this"):
        visit(site, path)
    visit(site, "/about", address="192.0.2.2")
    assert counts(site) == {
        "visits": 6, "visitors": 2, "/": 1, "/about": 2, "/café": 1,
    }  # fmt: skip


def test_one_visitor_counts_one_share_of_a_day(site: Harness) -> None:
    for _ in range(30):
        visit(site, "/new")
        visit(site, "/about")
    assert counts(site) == {"visits": 10, "visitors": 1, "/about": 1}
    visit(site)  # a later tick of the same day: a third page, nothing else
    visit(site, "/café")
    assert counts(site) == {"/": 1}
    site.close_tick(24, name=stream_name(SITE, "visits"))
    visit(site)
    assert counts(site) == {"visits": 1, "visitors": 1, "/": 1}


def test_every_answer_is_the_same(site: Harness, caplog: pytest.LogCaptureFixture) -> None:
    ask = {"name": "pageview", "url": f"https://{SITE}/", "domain": SITE}
    replies = [
        visit(site),
        visit(site),
        visit(site, "/unknown"),
        visit(site, agent="Googlebot/2.1"),
        visit(site, body={**ask, "domain": "unknown.example"}),
        visit(site, body={**ask, "name": "signup"}),
        visit(site, body=b"not JSON"),
        visit(site, body=b"\xff"),
        visit(site, body=b'{"name": "pageview", "url": "\xff"}'),
        visit(site, body=b'{"r": %b%b}' % (b"[" * 1500, b"]" * 1500)),
        visit(site, body={**ask, "url": f"//{SITE}/"}),
        visit(site, body={**ask, "url": f"ftp://{SITE}/"}),
        visit(site, address="unknown"),
        visit(site, body={**ask, "url": "https://[broken/"}),
        visit(site, body={**ask, "domain": 7}),
        visit(site, origin="https://evil.example"),
        visit(site, sec_gpc="1"),
        *(visit(site, body=each) for each in HOSTILE_BODIES if len(each) <= LARGEST_VISIT),
    ]
    shown = {
        (each.status, each.body, *(f"{name}: {value}" for name, value in each.headers.items()
         if name != "date"))
        for each in replies
    }  # fmt: skip
    assert len(shown) == 1
    assert replies[0].status == 202 and replies[0].body == b"ok"
    assert not caplog.records
    assert counts(site) == {"visits": 3, "visitors": 1, "/": 1}


def test_who_may_report(site: Harness) -> None:
    ask = {"n": "pageview", "u": f"https://{SITE}/", "d": SITE}
    for body, origin in (
        (ask, f"https://{SITE}"),
        ({**ask, "u": f"https://www.{SITE}/"}, f"https://www.{SITE}"),
        ({**ask, "u": "http://staging.test:8080/"}, "http://staging.test:8080"),
    ):
        visit(site, body=body, origin=origin, content_type="application/json")
    for body, origin in (
        (ask, "https://evil.example"),
        (ask, "null"),
        (ask, f"https://evil-{SITE}"),
        ({**ask, "u": "https://evil.example/"}, f"https://{SITE}"),
        ({**ask, "u": f"//{SITE}/"}, f"https://{SITE}"),
        (ask, f"//{SITE}"),
    ):
        visit(site, body=body, origin=origin)
    assert counts(site)["visits"] == 3


def test_a_request_of_plausible_s_own_script(site: Harness) -> None:
    """As plausible-tracker 0.3.9 of npm sent it from a browser."""
    recorded = (
        b'{"n":"pageview","u":"https://example.org/about?x=1","d":"example.org","r":null,"w":1280,'
        b'"h":0}'
    )
    assert visit(site, body=recorded, origin=f"https://{SITE}").status == 202
    assert counts(site) == {"visits": 1, "visitors": 1, "/about": 1}


def test_left_out(site: Harness) -> None:
    visit(site, dnt="1")
    visit(site, sec_gpc="1")
    visit(site, agent="Mozilla/5.0 (compatible; bingbot/2.0)")
    visit(site, agent="")
    visit(site, body={"name": "engagement", "url": f"https://{SITE}/", "domain": SITE})
    assert counts(site) == {}


def address_by(websites: Websites, peer: str, forwarded: str) -> str:
    headers = {"x-forwarded-for": forwarded}
    return websites.address(
        Request(method="POST", path="", query_string=b"", headers=headers, address=peer)
    )


def test_addresses_come_from_trusted_proxies_only(site: Harness) -> None:
    """What a client writes into the header stands before what the proxy adds."""
    for number in range(5):
        visit(site, address=f"198.51.100.{number}, 192.0.2.7")
    assert counts(site)["visitors"] == 1
    for port in range(5):
        visit(site, address=f"192.0.2.7:{port}")
        visit(site, address=f"[2001:db8::{port}]:{port}, 127.0.0.1:{port}")
    assert counts(site)["visitors"] == 1
    untrusting = Websites(domains=(SITE,))
    assert address_by(untrusting, "192.0.2.9", "198.51.100.1") == "192.0.2.9"
    trusting = Websites(domains=(SITE,), proxies=networks(["10.0.0.0/8", "::1"]))
    assert address_by(trusting, "10.1.1.1", "a, 192.0.2.1, 10.2.2.2") == "192.0.2.1"
    assert address_by(trusting, "::ffff:10.1.1.1", "192.0.2.1") == "192.0.2.1"
    assert address_by(trusting, "10.1.1.1", "10.2.2.2") == "10.2.2.2"
    assert address_by(trusting, "10.1.1.1", "") == "10.1.1.1"


def test_bodies_are_bounded(site: Harness) -> None:
    assert visit(site, body=b" " * 5000).status == 413
    long = {"name": "pageview", "url": f"https://{SITE}/{'x' * 3000}", "domain": SITE}
    visit(site, body=long)
    assert counts(site) == {"visits": 1, "visitors": 1}


def test_pages_appear_by_themselves(site: Harness) -> None:
    """With exact figures, from two visitors of a day on."""
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
        visit(site, "/new/", address=address)
    visit(site, "/reset/secret-of-one-visitor")
    counts(site)
    pages = stream_name(SITE, "pages")
    before = site.request("GET", f"/v1/streams/{pages}/top")
    assert b"/new" not in before.body
    site.close_tick(24, name=stream_name(SITE, "visits"))
    site.wait_closed(pages)
    top = site.request("GET", f"/v1/streams/{pages}/top").json()
    assert [(row["key"], row["value"], row["days"]) for row in top["keys"]] == [
        ("/new", 3, 1), ("/", 0, None), ("/about", 0, None), ("/café", 0, None),
    ]  # fmt: skip
    assert top["keys"][0]["apart"]
    for name in ("figures.csv", "figures", "top?limit=1000", "", "/chart.svg"):
        assert b"secret" not in site.request("GET", f"/v1/streams/{pages}/{name}".rstrip("/")).body
    assert b"/new,3,3,3," in site.request("GET", f"/v1/streams/{pages}/figures.csv").body
    about = site.request("GET", f"/v1/streams/{pages}").json()["hidden"]
    assert about["discovery"]["thresholds"] == [2, 2]
    assert about["delta"].startswith("except with a chance of 1e-06 a day")
    loss = site.request("GET", f"/v1/streams/{pages}/privacy?age=1d").json()["losses"][0]
    assert about["delta"] in loss["meaning"]


def test_one_address_makes_no_page_appear(site: Harness, tmp_path: Path) -> None:
    """However many browsers it names: four of them count under a page that nobody declared, through
    the tag and through an access log. Of other pages, visitors count as before."""
    agents = [f"Firefox/{number}" for number in range(60)]
    sent = [("/line", "192.0.2.1", agent) for agent in agents]
    sent += [("/line", f"2001:db8::{at}", agents[at]) for at in range(7)]
    sent += [("/line", "192.0.2.2", AGENT), ("/new", "192.0.2.1", AGENT)]
    sent += [("/new", f"192.0.2.{at}", AGENT) for at in (3, 4)]
    sent += [("/about", "192.0.2.1", agent) for agent in agents[:9]]
    for path, address, agent in sent:
        visit(site, path, address=address, agent=agent)
    groups = {visitor_of("192.0.2.1", agent) for agent in agents[:9]}
    assert counts(site)["/about"] == len(groups) > PER_ADDRESS, "a declared page counts all of them"
    site.close_tick(24, name=stream_name(SITE, "visits"))
    pages = stream_name(SITE, "pages")
    site.wait_closed(pages)
    shown = site.request("GET", f"/v1/streams/{pages}/top").json()["keys"]
    appeared = {row["key"]: row["value"] for row in shown if row["days"] is not None}
    assert appeared == {"/line": PER_ADDRESS + PER_ADDRESS + 1, "/new": 3}
    about = site.request("GET", f"/v1/streams/{pages}").json()
    assert about["hidden"]["per_address"] == PER_ADDRESS
    assert about["interval"].endswith("at most 4 persons of one address count")

    lines = [
        f'{address} - - [01/Mar/2026:10:00:00 +0000] "GET {path} HTTP/1.1" 200 7 "-" "{agent}"\n'
        for path, address, agent in sent
    ]
    options = SourceOptions(
        tick="1h", format="log", time="time", key="page", keys=("/", "/about"), discover=True,
        person="visitor", keys_per_person=3, person_per="1d",
    )  # fmt: skip
    log = io.BytesIO("".join(lines).encode())
    mechanism = Blocks(Level(1, EXACT), Level(24, EXACT))
    discovery = Discovery("1d", ((0, EXACT),), 1e-6, 3)
    days = {"start": "2026-03-01", "until": "2026-03-02"}
    under_way = run(log, options, mechanism=mechanism, discovery=discovery, **days)  # type: ignore[arg-type]
    list(under_way)
    table = under_way.published.discovered()
    assert dict(zip(table["key"], table["value"].tolist(), strict=True)) == appeared


def test_what_one_address_can_do() -> None:
    """The figures of docs/website.md: a page of its choice, some page of as many as count, and how
    many addresses it takes."""
    described = [each for each, _ in Websites(domains=(SITE,)).streams(SITE)]
    (hidden,) = [each.hidden for each in described if each.hidden]
    chance = hidden.discovery.chance(PER_ADDRESS, 1)
    assert chance < 1 / 400_000
    assert AGENTS * hidden.discovery.keys / PER_ADDRESS * chance < 1 / 2000
    assert [
        -(-hidden.discovery.min_count(probability=0.5, stage=stage) // PER_ADDRESS)
        for stage in (0, 1)
    ] == [9, 5]
    assert hidden.discovery.chance(60, 0) > 0.99, "without a bound, sixty browsers would do"


def test_browsers_may_send_and_load(site: Harness) -> None:
    preflight = site.request("OPTIONS", "/api/event", origin=f"https://{SITE}")
    assert preflight.status == 204
    assert preflight.headers["access-control-allow-origin"] == "*"
    script = site.request("GET", "/fadecount.js")
    assert script.headers["cross-origin-resource-policy"] == "cross-origin"
    assert script.headers["content-type"].startswith("text/javascript")
    assert len(script.body) < 1000
    for forbidden in (b"cookie", b"Storage", b"search"):
        assert forbidden not in script.body.partition(b"\n")[2]


def test_a_restart_goes_on(site: Harness, tmp_path: Path) -> None:
    """The same caps of the same day hold, and streams stay as they are."""
    visit(site)
    assert counts(site) == {"visits": 1, "visitors": 1, "/": 1}
    site.__exit__()
    with site:
        visit(site)
        assert counts(site) == {"visits": 1}


def test_a_flood_of_strangers(site: Harness) -> None:
    """Honest visitors still count."""
    for number in range(400):
        visit(site, f"/{number}", agent=f"Firefox/{number}", address=f"203.0.{number % 200}.1")
        if number % 100 == 50:
            visit(site, "/about")
    found = counts(site)
    assert found["/about"] == 1
    assert 300 < found["visitors"] <= 401


@pytest.mark.parametrize("wrong", ["Example.org", "a b", "-a.org", "", "x" * 81, "a_b"])
def test_websites_are_checked(wrong: str) -> None:
    with pytest.raises(ValueError, match="website must be"):
        Websites(domains=(wrong,))
    with pytest.raises(ValueError, match="page must be"):
        Websites(pages=("/a/",))
    # before any stream is created, whose zone would stay
    with pytest.raises(ValueError, match="page_sample must be from 1e-9 to 1, got 2"):
        Websites(domains=(SITE,), sample=2.0)
    with pytest.raises(ValueError, match="zone must be"):
        Websites(domains=(SITE,), zone="Mars")
    with pytest.raises(ValueError, match="trusted proxies must be"):
        networks(["example"])


def test_what_a_website_began_with_is_not_changed_in_silence(site: Harness, tmp_path: Path) -> None:
    """Its zone and its sample are fixed; pages may be added."""
    site.__exit__()
    state = ["--state", str(tmp_path / "state"), "--fence", str(tmp_path / "fence")]
    words = ["--port", "0", "--website", f"new.example,{SITE}", *state]
    serve = [sys.executable, "-m", "fadecount", "serve", *words]
    for option, value, known in (("zone", "Europe/Vienna", "UTC"), ("page-sample", "0.5", "1.0")):
        command = [*serve, f"--{option}", value]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert ended.returncode == 1
        said = ended.stderr.splitlines()[-1]
        assert f"--{option} must be {known}, with which stream {SITE}_" in said
    assert site._settings.websites is not None
    more = replace(site._settings.websites, pages=("/more", "/about"), zone="UTC", sample=1.0)
    site._settings = replace(site._settings, websites=more)
    with site:
        pages = stream_name(SITE, "pages")
        known = site.request("GET", f"/v1/streams/{pages}").json()["keys"]
        assert known == ["/", "/about", "/café", "/more"]
        streams = site.request("GET", "/v1/streams").json()["streams"]
        assert not any("new.example" in each["name"] for each in streams)


def test_a_damaged_website_stops_no_other(
    site: Harness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site.__exit__()
    pages = stream_name(SITE, "pages")
    with closing(sqlite3.connect(tmp_path / "state" / "streams.db")) as database:
        database.execute("UPDATE streams SET kept = '7' WHERE name = ?", (pages,))
        database.commit()
    assert site._settings.websites is not None
    more = replace(site._settings.websites, pages=("/more",), zone="UTC")
    site._settings = replace(site._settings, websites=more)
    with site:
        assert f"stream {pages} is refused: " in caplog.text
        visit(site, body={"n": "pageview", "u": "http://localhost/more", "d": "localhost"})
        assert counts(site, "localhost") == {"visits": 1, "visitors": 1, "/more": 1}


def test_pages_without_a_website_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option, value in (("pages", "/a"), ("zone", "UTC"), ("page-sample", "0.5")):
        assert main(["serve", f"--{option}", value, "--state", str(tmp_path / "state")]) == 1
        assert f"--website must be given with --{option}" in capsys.readouterr().err
    assert not (tmp_path / "state").exists()


def test_one_command(tmp_path: Path) -> None:
    """It prints the tag and the promise, and counts."""
    words = ("--website", f"{SITE},b.example", "--pages", "/a", "--public")
    with ServeProcess(tmp_path, *words) as serving:
        assert serving.process.stdout
        said = [serving.process.stdout.readline().decode().strip() for _ in range(5)]
        assert said[1] == (
            f'<script defer data-domain="{SITE}" src="{serving.url}/fadecount.js"></script>'
        )
        assert said[4].startswith("the promise: ") and "at most 2 up to 1 week, 4 later" in said[4]
        with urllib.request.urlopen(f"{serving.url}/v1/streams") as answer:  # noqa: S310 - our own
            streams = {each["name"]: each for each in json.load(answer)["streams"]}
    assert set(streams) == {
        stream_name(each, kind) for each in (SITE, "b.example") for kind in STREAMS
    }
    pages = streams[stream_name(SITE, "pages")]
    assert pages["hidden"]["discovery"]["delta"] == 1e-6 and pages["group"]["delta"] == 1e-6
    assert pages["unit_text"] == "one person's day, at most 1 event in each of at most 3 keys"
    assert pages["group"]["curve"] == [
        {"age_seconds": 7 * 86400, "loss": 2.0},
        {"age_seconds": None, "loss": 4.0},
    ]
