"""Font configurations for the browser tests: fonts from a Python package in the checkout, none from
the machine."""

from __future__ import annotations

from pathlib import Path

import matplotlib

CONFIGURATION = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>
"""


def font_configuration(folder: Path, name: str) -> Path:
    """A fontconfig file under which only the fonts whose file begins with ``name`` exist."""
    fonts = folder / "fonts"
    fonts.mkdir()
    for file in sorted((Path(matplotlib.get_data_path()) / "fonts/ttf").glob(f"{name}*.ttf")):
        (fonts / file.name).symlink_to(file)
    assert any(fonts.iterdir()), f"no font called {name}"
    written = folder / "fonts.conf"
    written.write_text(CONFIGURATION.format(fonts=fonts, cache=folder / "cache"), encoding="utf-8")
    return written
