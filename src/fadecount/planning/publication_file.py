"""A publication as a file: TOML in and out. An error names the place in the file, what was found,
what is allowed, and the nearest name that is known.

>>> text = '''
... zone = "UTC"
... start = 2026-03-01
... unit = { of = "event" }
... [loss]
... ever = 1
... [measures.visits]
... per = ["1h", "1d"]
... '''
>>> parse_publication(text, name="visits").measures[0].per
('1h', '1d')
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from datetime import date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms import Unit
from fadecount.planning.publication import BETWEEN, Columns, Input, Measure, Publication

_UNIT = {"of": "of", "each": "per", "max_events": "events"}
_LATER = {"late": "rows of yesterday", "expect": "missing files"}
_T = TypeVar("_T")


def read_publication(path: str | Path) -> Publication:
    """The publication that a TOML file describes; its name is by default that of the file. Paths in
    it are relative to it."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ParameterError(
            f"publication must be a TOML file that can be read, got {str(path)!r} ({reason});"
            " check the path"
        ) from error
    return parse_publication(text, name=file.stem, folder=file.parent)


def parse_publication(text: str, *, name: str, folder: Path = Path()) -> Publication:
    """The publication that a text in TOML describes."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ParameterError(
            f"publication must be TOML, got an error: {error}; correct it"
        ) from None
    return publication_of(given, name=name, folder=folder)


def publication_of(
    given: Mapping[str, Any], *, name: str | None = None, folder: Path = Path()
) -> Publication:
    """The publication with these fields, as they are in a file. ``name`` is for one without."""
    top = _Table(given, "", [*_TOP])
    for later, what in _LATER.items():
        if later in given:
            raise bad_parameter(
                later, given[later], f"left out: {what} are not looked after yet", "remove it"
            )
    unit = _Table(top.table("unit", required=True), "unit", _UNIT)
    measures = top.table("measures", required=True)
    loss = top.table("loss", required=True)
    _check_ages(loss)
    made = {
        **top.others(("unit", "measures", "loss", "columns", "input", "start")),
        "start": _moment(top.required("start")),
        "unit": _unit(unit.given),
        "promise": loss,
        "columns": _made(Columns, top.table("columns"), "columns"),
        "input": _made(Input, top.table("input"), "input"),
        "measures": tuple(_measures(measures, folder)),
    }
    top.required("zone")
    if name is not None:
        made.setdefault("name", name)
    return Publication(**made)


def _unit(given: Mapping[str, Any]) -> Unit:
    """The unit of a file; errors have its names."""
    try:
        return Unit(**{_UNIT[field]: value for field, value in given.items()})
    except ParameterError as error:
        what, must, rest = str(error).partition(" must ")
        place = {"events of the unit": "max_events", "per of the unit": "each"}.get(what, "of")
        raise ParameterError(f"unit.{place}{must}{rest}") from None


def _check_ages(loss: Mapping[str, Any]) -> None:
    """A field below the header of a table belongs to that table: say so."""
    for field, value in loss.items():
        if field in _TOP:
            raise ParameterError(
                f"{field} must stand above the first table, got it in [loss]; everything below the"
                " header of a table belongs to it"
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise bad_parameter(f"loss.{field}", value, "a number", "such as 2")


_TOP = tuple(
    "loss" if each.name == "promise" else each.name for each in fields(Publication)
) + tuple(_LATER)


class _Table:
    """The fields of a table of the file, of which the known ones may be there."""

    def __init__(self, given: Any, place: str, known: Any) -> None:
        if not isinstance(given, Mapping):
            raise bad_parameter(
                place or "publication", given, "a table", "such as { of = 'event' }"
            )
        self.given, self._place = given, place
        names = [*known]
        for field in given:
            if field in names:
                continue
            if place and field in _TOP:
                raise ParameterError(
                    f"{field} must stand above the first table, got it in [{place}]; everything"
                    " below the header of a table belongs to it"
                )
            near = get_close_matches(str(field), names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
            where = f"{place}.{field}" if place else str(field)
            raise ParameterError(f"{where} must be a known field, got an unknown one; {hint}")

    def required(self, field: str) -> Any:
        """The value of a field that must be there."""
        if field not in self.given:
            where = f"{self._place}.{field}" if self._place else field
            examples = {
                "zone": "zone = 'Europe/Vienna'",
                "start": "start = 2026-03-01",
                "unit": "unit = { of = 'event' }",
                "loss": "a table [loss] with ever = 1",
                "measures": "a table [measures.visits]",
            }
            raise ParameterError(f"{where} must be given; such as {examples[field]}")
        return self.given[field]

    def table(self, field: str, *, required: bool = False) -> Mapping[str, Any]:
        """The fields of a table in this one."""
        given = self.required(field) if required else self.given.get(field, {})
        if not isinstance(given, Mapping):
            raise bad_parameter(field, given, "a table", f"such as [{field}]")
        return given

    def others(self, without: Any) -> dict[str, Any]:
        """The fields but for some."""
        return {field: value for field, value in self.given.items() if field not in without}


def _made(kind: type[_T], given: Mapping[str, Any], place: str) -> _T:
    """A value of a dataclass of texts from its table."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type] # a dataclass
    for field, value in _Table(given, place, names).given.items():
        if not isinstance(value, str) or not value:
            raise bad_parameter(f"{place}.{field}", value, "a text", "write it in quotes")
    return kind(**given)


def _measures(given: Mapping[str, Any], folder: Path) -> Iterator[Measure]:
    names = [each.name for each in fields(Measure) if each.name != "name"]
    for name, each in given.items():
        place = f"measures.{name}"
        for one in each if isinstance(each, list) else [each]:  # one after the other
            table = _Table(one, place, names)
            made = table.others(("keys", "start", "until"))
            for field in ("start", "until"):
                if field in table.given:
                    made[field] = _moment(table.given[field])
            keys, key = table.given.get("keys", ()), table.given.get("key", ())
            if isinstance(keys, str):
                columns = len(key) if isinstance(key, list) else 1
                keys, labels = _read_keys(folder / keys, f"{place}.keys", columns)
                made["labels"] = {**labels, **table.table("labels")}
            elif isinstance(keys, list):  # a key of several columns may be a list
                keys = [
                    BETWEEN.join(each)
                    if isinstance(each, list) and all(isinstance(text, str) for text in each)
                    else each
                    for each in keys
                ]
            made["keys"] = keys
            yield Measure(name=name, **made)


def _read_keys(path: Path, place: str, columns: int) -> tuple[list[str], dict[str, str]]:
    """The keys of a file, one a line; behind their columns, a tab and a label."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        remedy = "paths are relative to the publication's file"
        raise bad_parameter(
            place, str(path), f"a file with one key a line ({reason})", remedy
        ) from error
    keys, labels = list[str](), dict[str, str]()
    for line in lines:
        texts = line.split(BETWEEN)
        if not line.strip():
            continue
        key = BETWEEN.join(texts[:columns])
        keys.append(key)
        if len(texts) > columns and texts[columns]:
            labels[key] = texts[columns]
    return keys, labels


def _moment(value: Any) -> str:
    """A date or time of TOML as text."""
    if isinstance(value, datetime):
        return value.isoformat()
    return value.isoformat() if isinstance(value, date) else value


# Back to a file, and for a store
# ------------------------------------------------------------------------------------------------
def fields_of(publication: Publication) -> dict[str, Any]:
    """The fields of a publication as they are in a file, without those that have their defaults;
    :func:`publication_of` makes the same one of them."""
    made = _changed(publication)
    unit = publication.unit
    made["unit"] = {"of": unit.of}
    if unit.of == "person":
        made["unit"] |= {"each": unit.per, "max_events": unit.events}
    made["loss"] = made.pop("promise")
    for name in ("columns", "input"):
        if table := _changed(getattr(publication, name)):
            made[name] = table
        else:
            made.pop(name, None)
    measures: dict[str, Any] = {}
    for measure in publication.measures:
        table = _changed(measure)
        del table["name"]
        several = measures.setdefault(measure.name, [])
        several.append(table)
    made["measures"] = {
        name: each[0] if len(each) == 1 else each for name, each in measures.items()
    }
    return made


def _changed(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that do not have their defaults, with lists for tuples."""
    made = {}
    for each in fields(value):
        given = getattr(value, each.name)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if given != default:
            made[each.name] = list(given) if isinstance(given, tuple) else given
    return made


def to_toml(publication: Publication) -> str:
    """The publication as a file that :func:`read_publication` takes."""
    made = fields_of(publication)
    measures = made.pop("measures")
    tables = {name: made.pop(name) for name in ("loss", "columns", "input") if name in made}
    lines = [*_lines(made)]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *_lines(table)]
    for name, given in measures.items():
        for table in given if isinstance(given, list) else [given]:
            head = f"[[measures.{name}]]" if isinstance(given, list) else f"[measures.{name}]"
            lines += ["", head, *_lines(table)]
    return "\n".join(lines) + "\n"


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    return (f"{_key(field)} = {_toml(each)}" for field, each in table.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(name)} = {_toml(each)}" for name, each in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)


def _key(name: str) -> str:
    plain = name and all(each.isascii() and (each.isalnum() or each in "-_") for each in name)
    return name if plain else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
