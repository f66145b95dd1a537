"""Build the documentation as a site: ``make site``, or ``make docs-serve`` to read it in a browser.

The pages are the Markdown files of the repository, and the reference pages that ``tools.docs``
makes from the code. ``docs/index.md`` is the navigation: its headings are the captions, its lists
are the pages. Warnings are errors: a page outside the navigation, a link to a missing page or
heading. Nothing on the site comes from another host.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from sphinx.application import Sphinx

import fadecount
from tools import docs

ROOT = Path(__file__).parent.parent
INDEX = "docs/index"
LINKED = ("src", "examples", "deploy")
"""Folders whose files the pages link to: the site offers these files."""

SETTINGS = {
    "project": "fadecount",
    "release": fadecount.__version__,
    "extensions": ["myst_parser"],
    "root_doc": INDEX,
    "include_patterns": ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**"],
    "exclude_patterns": ["**.json"],
    "myst_heading_anchors": 4,
    "html_theme": "furo",
    "html_title": "fadecount",
    "html_copy_source": False,
    "html_show_sphinx": False,
    "highlight_language": "text",
}

STYLE = """\
/* names of tests and options are long: let them break inside the cells of a table */
table td code.literal { overflow-wrap: anywhere; white-space: normal; }
table.docutils td { vertical-align: top; }
"""

_HEADING = re.compile(r"^## +(.+)$", re.MULTILINE)
_LINK = re.compile(r"^- \[([^\]]*)\]\(([^):#\s]+\.md)\)", re.MULTILINE)
_ENTRY = (
    '<!doctype html><meta charset="utf-8"><title>fadecount</title><meta http-equiv="refresh"'
    ' content="0; url=docs/index.html">\n'
)


def navigation(page: str) -> Iterator[tuple[str, list[str]]]:
    """The captions of a page of links, each with the pages listed below it as Sphinx names them."""
    captions = ["", *_HEADING.split(page)[1::2]]
    for caption, part in zip(captions, _HEADING.split(page)[::2], strict=True):
        yield caption, [f"{title} <{target}>" for title, target in _LINK.findall(part)]


def with_navigation(page: str) -> str:
    """The page, and behind it the same lists as Sphinx reads them."""
    trees = [
        "\n".join(
            [
                "```{toctree}",
                ":hidden:",
                *([f":caption: {caption}"] if caption else []),
                "",
                *links,
                "```",
            ]
        )
        for caption, links in navigation(page)
        if links
    ]
    return "\n\n".join([page, *trees]) + "\n"


def collect(root: Path, made: Mapping[str, str], folder: Path) -> None:
    """Put the pages of the repository, what they link to, and the made pages into one folder."""
    for page in root.glob("*.md"):
        shutil.copy(page, folder)
    shutil.copytree(root / "docs", folder / "docs")
    for name, text in made.items():
        (folder / "docs" / name).write_text(text, encoding="utf-8")
    for name in LINKED:
        if (root / name).is_dir():
            (folder / name).symlink_to(root / name)


def build(out: Path, root: Path = ROOT, made: Mapping[str, str] | None = None) -> bool:
    """Write the site into a folder; false if there were warnings, which go to standard error."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder)
        collect(root, docs.pages() if made is None else made, pages)
        site = Sphinx(
            srcdir=pages,
            confdir=None,
            outdir=out,
            doctreedir=pages / ".doctrees",
            buildername="html",
            confoverrides=SETTINGS,
            status=None,
            freshenv=True,
            warningiserror=True,
        )

        def read(_site: Sphinx, name: str, source: list[str]) -> None:
            if name == INDEX:
                source[0] = with_navigation(source[0])

        site.connect("source-read", read)
        site.add_css_file("tables.css")
        (out / "_static").mkdir(exist_ok=True)
        (out / "_static" / "tables.css").write_text(STYLE, encoding="utf-8")
        site.build(force_all=True)
        (out / "index.html").write_text(_ENTRY, encoding="utf-8")
        return site.statuscode == 0


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.build_site", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "out" / "site",
        metavar="FOLDER",
        help="where the site goes (out/site)",
    )
    parser.add_argument(
        "--serve",
        type=int,
        metavar="PORT",
        help="then show it on this port of this machine, until Ctrl-C",
    )
    arguments = parser.parse_args(words)
    if not build(arguments.out.resolve()):
        return 1
    print(f"the site is in {arguments.out}")
    if arguments.serve is not None:
        handler = functools.partial(
            http.server.SimpleHTTPRequestHandler, directory=str(arguments.out)
        )
        with http.server.ThreadingHTTPServer(("127.0.0.1", arguments.serve), handler) as server:
            print(f"read it at http://127.0.0.1:{server.server_port}/", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
