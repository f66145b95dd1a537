"""Execute the notebooks of ``examples/notebooks``: ``make notebooks`` keeps what they show,
``--check`` only runs them.

Each notebook runs in a kernel of its own, in a temporary folder: it needs nothing that stands
beside it, so that it runs when copied elsewhere. Jupyter's files go there too, never into the home.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "examples" / "notebooks"
SECONDS = 300


def execute(path: Path, *, folder: str, keep: bool) -> None:
    """Run all cells in a folder; an error in one raises ``CellExecutionError``. With ``keep`` the
    outputs are written into the file."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        startup_timeout=SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": folder}},
    )
    client.extra_arguments = ["--log-level=ERROR"]
    client.execute()
    if keep:
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)  # when it ran: another file every time
        nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.notebooks", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", help="names of notebooks (default: all)")
    parser.add_argument("--check", action="store_true", help="run them, and change nothing")
    arguments = parser.parse_args(words)
    names = arguments.names or sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
    with tempfile.TemporaryDirectory() as home:
        for name in (
            "IPYTHONDIR",
            "JUPYTER_CONFIG_DIR",
            "JUPYTER_DATA_DIR",
            "JUPYTER_RUNTIME_DIR",
            "MPLCONFIGDIR",
        ):
            os.environ[name] = home
        for name in names:
            execute(NOTEBOOKS / f"{name}.ipynb", folder=home, keep=not arguments.check)
            print(f"{name} runs", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
