"""The fuzz campaign under atheris, which keeps inputs that reach new code: ``python -m
campaigns.sources.guided [INPUTS]``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def main(inputs: int) -> None:
    """Runs until that many inputs were tried, and ends the process: 0 if nothing was found."""
    import atheris

    with atheris.instrument_imports(include=["fadecount.sources"]):
        from campaigns.sources import fuzz

    folder = Path(tempfile.mkdtemp(prefix="fadecount-fuzz-"))
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(fuzz.SEEDS):
        (corpus / f"seed{number}").write_bytes(seed)
    words = folder / "words"
    words.write_text(
        "".join('"' + "".join(f"\\x{byte:02x}" for byte in piece) + '"\n' for piece in fuzz.PIECES)
    )
    settings = [
        f"-runs={inputs}",
        f"-dict={words}",
        f"-artifact_prefix={folder}/",
        "-max_len=1024",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *settings, str(corpus)], fuzz.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
