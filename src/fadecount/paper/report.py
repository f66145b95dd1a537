"""One self-contained page: the figures and tables in the paper's order, each with an explanation
and its parameters."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from importlib.resources import files

import fadecount as fc
from fadecount.paper.sections import Section, Table
from fadecount.paper.words import INTRODUCTION


def page(sections: Sequence[Section]) -> str:
    """The report as HTML. It loads no other files."""
    style = files("fadecount.paper").joinpath("report.css").read_text(encoding="utf-8")
    contents = "".join(
        f'<li><a href="#{each.name}">{html.escape(each.heading)}</a></li>' for each in sections
    )
    body = "\n".join(_section(each) for each in sections)
    introduction = "".join(f"<p>{each}</p>" for each in INTRODUCTION)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Continual counting with gradual privacy expiration, reproduced</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>Continual counting with gradual privacy expiration, reproduced</h1>
{introduction}
<nav aria-label="Contents"><ol>{contents}</ol></nav>
</header>
<main>
{body}
</main>
<footer><p>Made by <code>fadecount paper</code>, version {html.escape(fc.__version__)}.
The CSV files beside this page hold the numbers.</p></footer>
</body>
</html>
"""


def _section(section: Section) -> str:
    parts = [
        f'<section id="{section.name}">',
        f"<h2>{_unbroken(html.escape(section.heading))}</h2>",
    ]
    texts = [f"<p>{_unbroken(each)}</p>" for each in section.text]
    if section.pictures:
        wide, narrow = (_as_address(each) for each in section.pictures)
        parts.append(
            f'<figure><picture><source media="(max-width: 40rem)" srcset="{narrow}"><img'
            f' alt="{html.escape(section.heading)}"'
            f' src="{wide}"></picture><figcaption>{texts.pop(0)}</figcaption></figure>'
        )
    tables = [_table(each) for each in section.tables]
    parts += [part for pair in zip(texts, tables, strict=True) for part in pair]
    names = ", ".join(f'<a href="{name}">{name}</a>' for name in section.files)
    parts.append(
        f'<p class="small">{_unbroken(html.escape(section.parameters))} Data: {names}.</p>'
    )
    return "\n".join([*parts, "</section>"])


def _as_address(picture: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(picture.encode("utf-8")).decode("ascii")


def _unbroken(text: str) -> str:
    """An equation stays on one line."""
    return text.replace(" = ", "&nbsp;=&nbsp;")


def _table(table: Table) -> str:
    """Columns of numbers are aligned to the right, those of words to the left."""
    header, *rows = table
    words = [any(not _is_number(row[at]) for row in rows) for at in range(len(header))]

    def line(cells: Sequence[str], tag: str) -> str:
        classes = ["words" if is_words else "number" for is_words in words]
        return (
            "<tr>"
            + "".join(
                f'<{tag} class="{kind}">{html.escape(cell)}</{tag}>'
                for cell, kind in zip(cells, classes, strict=True)
            )
            + "</tr>"
        )

    body = "\n".join(line(row, "td") for row in rows)
    return (
        "<div"
        f' class="scroll"><table><thead>{line(header, "th")}</thead><tbody>\n{body}\n</tbody></table></div>'
    )


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] == "-"
