"""fadecount paper: the files, the page, and what is refused."""

from __future__ import annotations

import ast
import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import fadecount.paper
from fadecount.cli.main import main
from fadecount.paper import PARTS, reproduce, wanted_parts

VOID = {"meta", "img", "source"}


class Outline(HTMLParser):
    """Reads a page, complains about tags that do not match, and notes headings, addresses and
    pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sections: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        values = dict(attrs)
        if tag == "section":
            self.sections.append(values["id"] or "")
        self.addresses += [
            value for name in ("href", "src", "srcset") if (value := values.get(name))
        ]
        if tag == "img":
            assert values["alt"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_parts_are_written_and_the_page_is_self_contained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "paper"
    assert main(["paper", "--out", str(folder), "--only", "table1, fig1a,fig2c", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"report": str(folder / "report.html"), "parts": ["fig2a", "fig2c", "table1"]}
    figures = {
        f"{name}.{suffix}" for name in ("fig2a", "fig2c") for suffix in ("png", "svg", "csv")
    }
    assert {file.name for file in folder.iterdir()} == {"report.html", "table1.csv"} | figures

    text = (folder / "report.html").read_text(encoding="utf-8")
    outline = Outline()
    outline.feed(text)
    assert outline.open == []
    assert outline.sections == ["fig2a", "fig2c", "table1"]
    for address in outline.addresses:
        own = (
            address.startswith(("data:image/svg+xml;base64,", "#")) or (folder / address).is_file()
        )
        assert own, address[:60]
    assert not re.search(r"@import|url\(|<script", text)

    with (folder / "fig2a.csv").open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)
    assert header[0] == "age"
    assert len(header) == 5
    assert [int(line[0]) for line in lines] == list(range(1000))


def test_a_full_folder_is_refused_unless_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    words = ["paper", "--out", str(tmp_path), "--only", "table1"]
    assert main(words) == 1
    error = capsys.readouterr().err
    assert "--out must be an empty folder" in error
    assert error.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
    assert main([*words, "--force"]) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"mine.txt", "table1.csv", "report.html"}
    assert "table1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "fig9"], "--only must be one of fig1a, fig1b, fig2a"),
        (["--only", "measured", "--runs", "0"], "--runs must be an integer from 2"),
    ],
)
def test_bad_words_are_refused_in_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paper", "--out", str(tmp_path / "new"), *words]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_made_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["paper", "--out", str(tmp_path / "file" / "folder"), "--only", "table1"]) == 1
    assert "--out must be a writable folder" in capsys.readouterr().err


def test_names_and_work(tmp_path: Path) -> None:
    """Parts come in order, and the shares of work add up to all of it."""
    assert wanted_parts([]) == PARTS
    assert wanted_parts(["totals_million", "measured", "fig1b"]) == (
        "fig3",
        "measured",
        "totals_million",
    )
    shares: list[float] = []
    wanted = ["totals_thousand", "table1", "fig1a"]
    assert reproduce(tmp_path, wanted, advance=shares.append) == (
        "fig2a",
        "table1",
        "totals_thousand",
    )
    assert sum(shares) == pytest.approx(1.0)


def test_the_room_uses_the_front_door_only() -> None:
    allowed = {
        "fadecount",
        "fadecount.errors",
        "fadecount.plots",
        "fadecount.checks",
        "fadecount.rounding",
        # fadecount.design would choose the paper's algorithm where that is better.
        "fadecount.planning.blocks",
        "fadecount.planning.request",
    }
    folder = Path(fadecount.paper.__file__).parent
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            inside = [
                name
                for name in names
                if name.startswith("fadecount") and not name.startswith("fadecount.paper")
            ]
            assert set(inside) <= allowed, (file.name, inside)
