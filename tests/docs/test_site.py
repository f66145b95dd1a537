"""The site is built without a warning and without a network, and it holds every page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tools.build_site import navigation, with_navigation

from tests.docs.pages import PAGES, ROOT, read

FOREIGN = re.compile(
    r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*|url\(\s*['\"]?(?:https?:)?//[^)]*"
)


def built(
    out: Path, code: str = "sys.exit(main(['--out', sys.argv[1]]))"
) -> subprocess.CompletedProcess[str]:
    """Sphinx keeps state for a whole process, so it gets one of its own."""
    words = [sys.executable, "-c", f"import sys; from tools.build_site import *; {code}", str(out)]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)


def test_the_site_has_every_page_and_asks_no_other_host(tmp_path: Path) -> None:
    done = built(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    missing = [
        page
        for page in PAGES
        if not page.startswith("deploy/") and not (tmp_path / page).with_suffix(".html").is_file()
    ]
    assert missing == []
    assert (tmp_path / "index.html").is_file() and (tmp_path / "search.html").is_file()
    files = [each for each in tmp_path.rglob("*") if each.suffix in (".html", ".css")]
    assert {
        found for each in files for found in FOREIGN.findall(each.read_text(encoding="utf-8"))
    } == set()


def test_a_page_outside_the_navigation_and_a_broken_link_are_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# All\n\n- [one](one.md)\n", encoding="utf-8")
    (tmp_path / "docs" / "one.md").write_text("# One\n\n[two](two.md#nowhere)\n", encoding="utf-8")
    (tmp_path / "docs" / "two.md").write_text("# Two\n", encoding="utf-8")
    done = built(tmp_path, "sys.exit(not build(Path(sys.argv[1]) / 'site', Path(sys.argv[1])))")
    assert done.returncode == 1
    assert "two.md: WARNING: document isn't included in any toctree" in done.stderr
    assert "WARNING: local id not found in doc 'docs/two': 'nowhere'" in done.stderr


def test_the_lists_of_the_index_are_the_navigation() -> None:
    page = "# All\n\n- [a](a.md): first\n\n## More\n\nText with [z](z.md).\n\n- [b](../b.md)\n- [c](https://example.org/c.md)\n"
    assert list(navigation(page)) == [("", ["a.md"]), ("More", ["../b.md"])]
    assert with_navigation(page).endswith(
        "```{toctree}\n:hidden:\n:caption: More\n\n../b.md\n```\n"
    )
    assert [caption for caption, _ in navigation(read("docs/index.md"))][:3] == [
        "",
        "Start",
        "Understand",
    ]
