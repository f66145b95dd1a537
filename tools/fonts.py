"""Make the page's fonts: ``make fonts``.

Downloads two open fonts (SIL Open Font License) at fixed versions, checks their hashes, keeps the
weights and the letters that the page uses, and writes two small woff2 files. Writes ``fonts.css``
as well: for each common system font a copy that is scaled to the same width and height, so that
nothing moves when the real font arrives.

The result is committed. The service and the tests need neither this script nor a network.
"""

from __future__ import annotations

import base64
import hashlib
import io
import sys
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from fontTools import subset
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

STATIC = Path(__file__).parent.parent / "src/fadecount/service/static"
REGISTRY = "https://registry.npmjs.org"
TEXT = (
    "".join(map(chr, [*range(0x20, 0x7F), *range(0xA0, 0x180)]))
    + "‐–—‘’‚“”„•…‰′″€−×→←↑↓≈≠≤≥∞·±ελσδβμΔ"  # noqa: RUF001
)
FEATURES = ["kern", "tnum", "lnum", "mark", "ccmp"]
LETTERS = (
    "eeeeeeeeeeeetttttttttaaaaaaaaooooooooiiiiiiinnnnnnnsssssshhhhhhrrrrrrddddllllcccuuummmwwffggyyppbbvk"
    " 0123456789          "
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package of the npm registry at one version, with the hash that the registry states for
    it."""

    name: str
    version: str
    integrity: str

    def files(self) -> dict[str, bytes]:
        stem = self.name.rpartition("/")[2]
        url = f"{REGISTRY}/{self.name}/-/{stem}-{self.version}.tgz"
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - a fixed https address
            packed = answer.read()
        found = "sha512-" + base64.b64encode(hashlib.sha512(packed).digest()).decode()
        if self.integrity != found:
            sys.exit(f"{self.name} {self.version} has the hash {found}, expected {self.integrity}")
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            members = [member for member in archive.getmembers() if member.isfile()]
            return {
                member.name.removeprefix("package/"): _read(archive, member) for member in members
            }


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """One font of the page: where it comes from, what of it is kept, and which system fonts stand
    in for it."""

    family: str
    file: str
    package: Package
    source: str
    licence: str
    axes: dict[str, tuple[float, float] | float]
    stand_ins: tuple[tuple[str, tuple[str, ...]], ...]


SANS = Face(
    family="Fadecount Sans",
    file="sans",
    package=Package(
        name="inter-ui",
        version="4.1.1",
        integrity="sha512-451h0J29HyOmA+JXgSi/6M12tL7ZCZ8arYKZUXiOXTJpJbAKqJvFh3k5SiV3x7tKe0C0KyrKUUiQIvvZ2PQDcA==",
    ),
    source="variable/InterVariable.woff2",
    licence="LICENSE.txt",
    axes={"opsz": 14, "wght": (400, 650)},
    stand_ins=(
        ("arimo", ("Arial", "Helvetica Neue", "Helvetica", "Liberation Sans", "Arimo")),
        ("DejaVuSans.ttf", ("DejaVu Sans", "Verdana")),
        ("STIXGeneral.ttf", ("STIXGeneral",)),
    ),
)
SERIF = Face(
    family="Fadecount Serif",
    file="serif",
    package=Package(
        name="source-serif",
        version="4.5.1",
        integrity="sha512-NUAh5IzF7KiUu2gTpqE+ed9MNbMe4st7LIIXZ0OHHSPc6gg86H67j04M8sIhU2qqFd26btXaFQ2ge5u/p72j0Q==",
    ),
    source="WOFF2/VAR/SourceSerif4Variable-Roman.ttf.woff2",
    licence="LICENSE.md",
    axes={"opsz": 24, "wght": (400, 600)},
    stand_ins=(
        ("gelasio", ("Georgia", "Gelasio")),
        ("tinos", ("Times New Roman", "Times", "Liberation Serif", "Tinos")),
        ("DejaVuSerif.ttf", ("DejaVu Serif",)),
        ("STIXGeneral.ttf", ("STIXGeneral",)),
    ),
)
MEASURED = {
    "arimo": Package(
        name="@fontsource/arimo",
        version="5.3.0",
        integrity="sha512-nhxZ2sTVZYX8DJBgLuyX360B5vE4mxqpmjlKTRfucIqfcWRVx9vOYzWBc1IgEX0ist48VMC10PRKbFyH+4QFvQ==",
    ),
    "tinos": Package(
        name="@fontsource/tinos",
        version="5.3.0",
        integrity="sha512-VVDyyZdbcsLKxo/W7rClAvacD/7DsGc7J5xzzp51Tndib8kDkEe/0bqbb3Xb3iH6+IUjt07aRsvtQ9MGeGGi4w==",
    ),
    "gelasio": Package(
        name="@fontsource/gelasio",
        version="5.3.0",
        integrity="sha512-V95Jr9GxtSCkigiWKEDTIqajefhJHk8251aQYrMBmrdSeYnjgbKRYxLjGpr3/NjpOAf2bejIiZPwtzJ9Bcpsgw==",
    ),
}


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file else b""


def make(face: Face) -> TTFont:
    """The face with its weights and letters only. It has a name of its own: the licence reserves
    the name of the original."""
    files = face.package.files()
    font = TTFont(io.BytesIO(files[face.source]))
    options = subset.Options(
        layout_features=FEATURES, flavor="woff2", name_IDs=[0, 13, 14], notdef_outline=True
    )
    cutter = subset.Subsetter(options)
    cutter.populate(text=TEXT)
    cutter.subset(font)
    font = instancer.instantiateVariableFont(font, face.axes)
    compact = face.family.replace(" ", "")
    for number, text in {
        1: face.family,
        2: "Regular",
        3: f"{compact} of {face.package.version}",
        4: face.family,
        6: compact,
    }.items():
        font["name"].setName(text, number, 3, 1, 0x409)
    font["head"].modified = font["head"].created
    font.recalcTimestamp = False
    font.flavor = "woff2"
    font.save(STATIC / f"{face.file}.woff2")
    (STATIC / f"{face.file}-licence.txt").write_bytes(files[face.licence].replace(b"\r\n", b"\n"))
    return font


def width(font: TTFont) -> float:
    """The mean width of a letter of English text with figures, in em."""
    names, advances = font.getBestCmap(), font["hmtx"]
    total: int = sum(advances[names[ord(letter)]][0] for letter in LETTERS)
    return total / len(LETTERS) / int(font["head"].unitsPerEm)


def stand_in(name: str) -> TTFont:
    if name.endswith(".ttf"):
        return TTFont(Path(matplotlib.get_data_path()) / "fonts/ttf" / name)
    return TTFont(io.BytesIO(MEASURED[name].files()[f"files/{name}-latin-400-normal.woff2"]))


def rules(face: Face, font: TTFont) -> tuple[str, list[str]]:
    """The @font-face rules of a face and its stand-ins, and the family names in order."""
    lines = [
        f'@font-face {{ font-family: "{face.family}"; src: url("/static/{face.file}.woff2")'
        f' format("woff2"); font-weight: {_weights(face)}; font-display: swap; }}'
    ]
    families = [face.family]
    metrics, em = font["hhea"], font["head"].unitsPerEm
    for name, local in face.stand_ins:
        scale = width(font) / width(stand_in(name))
        family = f"{face.family} as {local[0]}"
        sources = ", ".join(f'local("{each}")' for each in local)
        heights = {
            "ascent": metrics.ascent,
            "descent": -metrics.descent,
            "line-gap": metrics.lineGap,
        }
        overrides = " ".join(
            f"{key}-override: {value / em / scale:.2%};" for key, value in heights.items()
        )
        lines.append(
            f'@font-face {{ font-family: "{family}"; src: {sources}; size-adjust: {scale:.2%};'
            f" {overrides} }}"
        )
        families.append(family)
    return "\n".join(lines), families


def _weights(face: Face) -> str:
    weights = face.axes["wght"]
    assert isinstance(weights, tuple)
    return f"{weights[0]:.0f} {weights[1]:.0f}"


def main() -> None:
    parts = [
        "/* Made by `make fonts`. Open fonts under the SIL Open Font License: see sans-licence.txt"
        " and serif-licence.txt. */"
    ]
    variables = []
    for face, generic in ((SANS, "sans-serif"), (SERIF, "serif")):
        text, families = rules(face, make(face))
        parts.append(text)
        quoted = ", ".join(f'"{each}"' for each in families)
        variables.append(f"  --{face.file}: {quoted}, {generic};")
    parts.append(":root {\n" + "\n".join(variables) + "\n}\n")
    (STATIC / "fonts.css").write_text("\n".join(parts), encoding="utf-8")
    for file in sorted(STATIC.glob("*.woff2")):
        sys.stdout.write(f"{file.name}: {file.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
