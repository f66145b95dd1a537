"""The page of ``fadecount plan --open``: the library's plans, for this machine only."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

import fadecount as fc
from fadecount.cli._plan_page import PlanServer, answer_to
from fadecount.planning import plan_json

QUICK = "tick=1d&horizon=1y&losses=1d:1,1y:4"


@pytest.fixture(scope="module")
def server() -> Iterator[PlanServer]:
    with PlanServer() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def get(server: PlanServer, path: str, host: str | None = None) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return reply.status, body


def test_a_plan_is_the_library_s(server: PlanServer) -> None:
    status, body = get(server, f"/plan?{QUICK}")
    made = fc.plan({1: 1.0, 365: 4.0}, tick=86400)
    assert status == 200
    for each, option in zip(json.loads(body), made.options, strict=True):
        assert each["name"] == option.name and each["file"] == plan_json(made, option)
        margins = [f"± {row.half_width:,}" for row in made.published(option)]
        assert [row[-1] for row in each["published"]] == margins
        margins = [f"± {row.half_width:,}" for row in made.widths(option)]
        assert [row[1] for row in each["widths"]] == margins
        losses = dict(each["losses"])
        assert losses[86400] <= 1.0 and losses[365 * 86400] <= 4.0


def test_a_person_and_a_delta() -> None:
    options = answer_to(f"{QUICK}&person=1/1mo&delta=1e-9")
    assert "gaussian" in [each["name"] for each in options]
    person = json.loads(options[0]["file"])["plan"]["request"]["unit"]
    assert (person["events"], person["per"]) == (1, "1mo")


def test_only_this_machine_by_its_own_names(server: PlanServer) -> None:
    """A page elsewhere whose name points to this machine is refused, whatever it asks for."""
    port = server.server_address[1]
    assert server.server_address[0] == "127.0.0.1"
    for host in ("evil.example.org", f"evil.example.org:{port}", "127.0.0.1", f"[::1]:{port}", ""):
        for path in ("/", f"/plan?{QUICK}", "/static/plan.js"):
            assert get(server, path, host)[0] == 421
    assert get(server, "/", f"localhost:{port}")[0] == 200


def test_the_files_of_the_page_and_no_others(server: PlanServer) -> None:
    page = get(server, "/")[1].decode()
    named = {part.split('"')[0] for part in page.split('"/static/')[1:]}
    assert {"plan.js", "plan.css", "base.css", "sans.woff2"} <= named
    assert all(get(server, f"/static/{name}")[0] == 200 for name in named)
    for path in ("/v1/streams", "/static/", "/static/../plan.py", "/static/%2e%2e/plan.py", "/x"):
        assert get(server, path)[0] == 404


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("tick=1d", "loss must be given"),
        ("losses=1h", "could not convert"),
        ("losses=1h:x", "could not convert"),
        ("losses=1d:4,1y:1", "loss must not decrease"),
        ("losses=1y:1&person=x", "person must be"),
        ("losses=1y:1&delta=x", "could not convert"),
    ],
)
def test_a_refusal_is_one_line(server: PlanServer, query: str, name: str) -> None:
    status, body = get(server, f"/plan?{query}")
    assert status == 400 and json.loads(body)["detail"].startswith(name)
