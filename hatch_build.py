"""What the package index shows: the README with links that work there, and the project's addresses.

``home`` in pyproject.toml ([tool.hatch.metadata.hooks.custom]) is the address of the public
repository. Until it is set, links to files of the repository become plain names, and no address is
claimed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|mailto:|#)([^)\s]+)\)")


def for_the_index(text: str, home: str) -> str:
    """The README as the index can show it: without links that lead nowhere there.

    >>> text = "[theory](docs/theory.md#loss), [LICENSE](LICENSE), [site](https://example.org)"
    >>> for_the_index(text, "")
    'theory (`docs/theory.md`), `LICENSE`, [site](https://example.org)'
    >>> for_the_index("![a count](docs/a.svg) [theory](docs/theory.md#loss)", "https://example.org/f")
    '![a count](https://example.org/f/raw/main/docs/a.svg) [theory](https://example.org/f/blob/main/docs/theory.md#loss)'
    """

    def rewritten(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if home:
            return f"{picture}[{words}]({home}/{'raw' if picture else 'blob'}/main/{target})"
        path = target.partition("#")[0]
        if picture:
            return f"*{words}*"
        return f"`{path}`" if words == path else f"{words} (`{path}`)"

    return _LINK.sub(rewritten, text)


def addresses(home: str) -> dict[str, str]:
    """The addresses that the index lists beside the README."""
    if not home:
        return {}
    return {
        "Homepage": home,
        "Documentation": f"{home}/blob/main/docs/index.md",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
        "Issues": f"{home}/issues",
        "Security": f"{home}/blob/main/SECURITY.md",
    }


class IndexMetadata(MetadataHookInterface):
    """Called by the build for the dynamic fields ``readme`` and ``urls``."""

    def update(self, metadata: dict[str, Any]) -> None:
        home = str(self.config.get("home", "")).rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_the_index(text, home)}
        metadata["urls"] = addresses(home)
