"""Releases as a file: CSV, JSON lines or Parquet; ``-`` is standard output."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TextIO

from fadecount.errors import FadecountError, bad_parameter
from fadecount.streams.reader import Releases
from fadecount.streams.ticks import Ticks

COLUMNS = ("stream", "tick", "key", "value", "low", "high")
SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


def check_output(output: str | None, *, source: str | None = None, force: bool = False, append: bool = False) -> str:
    """The format of what is written there; refused before anything is released, if it cannot be written or is the input.

    A file that is there is replaced only with ``force``: a release that is overwritten may be the only copy of it.
    """
    if output in (None, "-"):
        return "csv"
    path = Path(str(output))
    kind = SUFFIXES.get(path.suffix.lower(), "")
    if not kind:
        raise bad_parameter("--output", output, "a .csv, .jsonl or .parquet file, or -", "the ending says the format")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise bad_parameter("--output", output, "a file that can be written", "check the folder and its permissions")
    if source is not None and path.exists() and Path(source).exists() and path.samefile(source):
        raise bad_parameter("--output", output, "another file than the input", "it would be overwritten")
    if append and kind == "parquet":
        raise bad_parameter("--output", output, "a .csv or .jsonl file to append to", "write another .parquet file")
    if path.exists() and not force and not append:
        raise bad_parameter("--output", output, "a new file", "--append writes behind what is there, --force replaces it")
    if kind == "parquet":
        _polars()
    return kind


class ReleaseWriter:
    """Writes releases piece by piece: stream, start of the tick (UTC), key, value, low and high (95 %).

    ``kept`` says whether the releases are in a store too, where they can be read if writing fails.
    """

    def __init__(
        self, output: str | None, stream: str, ticks: Ticks, *, kept: bool = True, force: bool = False, append: bool = False
    ) -> None:
        self._stream, self._ticks, self._kept = stream, ticks, kept
        self._kind = check_output(output, force=force, append=append)
        self._mode: Literal["a", "w"] = "a" if append else "w"
        self._path = None if output in (None, "-") else Path(str(output))
        self._frames: list[Any] = []
        self._file: TextIO | None = None

    def _opened(self) -> TextIO:
        """The file, from the first release on: a run that is refused leaves an older file alone."""
        if self._file is None:
            self._file = sys.stdout if self._path is None else self._path.open(self._mode, encoding="utf-8", newline="")
            if self._kind == "csv" and (self._path is None or self._path.stat().st_size == 0):
                self._file.write(",".join(COLUMNS) + "\n")
        return self._file

    def write(self, pieces: Iterable[Releases], keys: Sequence[str]) -> None:
        try:
            for piece in pieces:
                if self._kind == "parquet":
                    self._frames.append(_polars().DataFrame(list(self._rows(piece, keys)), schema=list(COLUMNS), orient="row"))
                else:
                    self._opened().write(self._text(piece, keys))
            if self._file is not None:
                self._file.flush()
        except OSError as error:
            raise _failed(error, self._path, kept=self._kept) from error

    def _rows(self, piece: Releases, keys: Sequence[str]) -> Iterator[tuple[str, str, str, int, int, int]]:
        starts = self._ticks.starts(piece.first_tick, len(piece.values))
        for start, row, real, width in zip(starts, *_lists(piece), strict=True):
            for key, value, centre in zip(keys, row, real, strict=False):
                yield self._stream, start, key, value, centre - width, centre + width

    def _text(self, piece: Releases, keys: Sequence[str]) -> str:
        """Lines of CSV or JSON; texts are quoted once each, since there are many more lines than keys."""
        starts = self._ticks.starts(piece.first_tick, len(piece.values))
        lines: list[str] = []
        if self._kind == "csv":
            heads = [_csv_field(key) for key in keys]
            for start, row, real, width in zip(starts, *_lists(piece), strict=True):
                before = f"{self._stream},{start},"
                lines += [
                    f"{before}{key},{value},{centre - width},{centre + width}\n"
                    for key, value, centre in zip(heads, row, real, strict=False)
                ]
        else:
            heads = [json.dumps(key, ensure_ascii=False) for key in keys]
            for start, row, real, width in zip(starts, *_lists(piece), strict=True):
                before = f'{{"stream": "{self._stream}", "tick": "{start}", "key": '
                lines += [
                    f'{before}{key}, "value": {value}, "low": {centre - width}, "high": {centre + width}}}\n'
                    for key, value, centre in zip(heads, row, real, strict=False)
                ]
        return "".join(lines)

    def close(self) -> None:
        try:
            if self._kind == "parquet" and self._frames:
                _polars().concat(self._frames).write_parquet(self._path)
            elif self._file is not None and self._file is not sys.stdout:
                self._file.close()
        except OSError as error:
            raise _failed(error, self._path, kept=self._kept) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _failed(error: OSError, path: Path | None, *, kept: bool) -> FadecountError:
    if path is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read it is gone: nothing more can be said there
    where = "standard output" if path is None else str(path)
    remedy = "what was released is in the store (fadecount streams export)" if kept else "--state keeps what was released"
    return FadecountError(f"--output {where} failed: {error.strerror}; {remedy}")


def _csv_field(text: str) -> str:
    field = io.StringIO()
    csv.writer(field, lineterminator="").writerow([text])
    return field.getvalue()


def _polars() -> Any:
    try:
        import polars
    except ImportError:
        raise FadecountError("Parquet output needs polars; install fadecount[files], or write .csv or .jsonl") from None
    return polars


def _lists(piece: Releases) -> tuple[list[list[int]], list[list[int]], list[int]]:
    """Values as shown, values as released, and the half widths around the latter."""
    return piece.values.tolist(), piece.released.tolist(), piece.half_widths.tolist()
