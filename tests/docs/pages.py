"""The pages of the documentation, and the code blocks in them."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MADE = ("cli.md", "http.md", "library.md", "modules.md", "openapi.json")
"""Pages that are made with the site, and are not in the repository."""

EXECUTED = ("python", "sh")
PAGES = sorted(
    str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
)
_BLOCK = re.compile(r"^( *)```(\w*) ?([^\n]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its language, a word on where it can run, its text, and the line on which the
    text begins."""

    language: str
    place: str = ""
    text: str
    line: int

    @property
    def end(self) -> int:
        """The line of the fence that ends it."""
        return self.line + self.text.count("\n")

    def is_output_of(self, other: Block | None) -> bool:
        """Whether it stands directly behind a block that is executed: it is what that one
        prints."""
        return (
            self.language == "text"
            and other is not None
            and other.language in EXECUTED
            and self.line == other.end + 2
        )


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text: str) -> list[Block]:
    return [
        Block(
            language=match[2],
            place=match[3],
            text=textwrap.dedent(match[4]),
            line=text.count("\n", 0, match.start(4)) + 1,
        )
        for match in _BLOCK.finditer(text)
    ]


def without_code(text: str) -> str:
    """The text without blocks and inline code: what a reader reads as prose."""
    return re.sub(r"`[^`\n]*`", "", _BLOCK.sub("", text))
