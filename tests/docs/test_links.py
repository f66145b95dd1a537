"""Local links lead to files and headings that exist. The site refuses links to missing headings of
made pages."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import MADE, PAGES, ROOT, read, without_code

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FOREIGN = ("http://", "https://", "mailto:")


def anchors(text: str) -> set[str]:
    """The names of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(page: str, text: str) -> list[str]:
    """The local links of a page that lead nowhere."""
    links = []
    for link in _LINK.findall(without_code(text)):
        if link.startswith(_FOREIGN):
            continue
        path, _, anchor = link.partition("#")
        if page.startswith("docs/") and path in MADE:
            continue
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (
            anchor and anchor not in anchors(target.read_text(encoding="utf-8"))
        ):
            links.append(link)
    return links


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert broken(page, read(page)) == []


def test_a_broken_link_is_found() -> None:
    text = (
        "[a](docs/theory.md) [b](docs/nowhere.md) [c](#nothing) [d](https://example.org/x)"
        " `[e](f.md)`"
    )
    assert broken("README.md", text) == ["docs/nowhere.md", "#nothing"]


SEARCHED = ("unique visitors", "duplicates", "daylight saving", "badge", "cron", "late events")


@pytest.mark.parametrize("words", [*SEARCHED, "own mechanism"])
def test_what_people_search_for_is_in_the_index_and_on_the_page_that_it_names(words: str) -> None:
    table = [line for line in read("docs/index.md").splitlines() if line.startswith("|")]
    (row,) = (line for line in table if words in line.partition("](")[0])
    page = _LINK.findall(row)[0].partition("#")[0]
    assert words in read(f"docs/{page}").lower()


def test_every_page_can_be_reached_from_the_readme() -> None:
    waiting, seen = ["README.md"], {"README.md"}
    while waiting:
        page = waiting.pop()
        for link in _LINK.findall(without_code(read(page))):
            target = ((ROOT / page).parent / link.partition("#")[0]).resolve()
            if link.startswith(_FOREIGN) or not target.is_file() or target.suffix != ".md":
                continue
            name = str(target.relative_to(ROOT))
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    assert [page for page in PAGES if page.startswith("docs/") and page not in seen] == []
