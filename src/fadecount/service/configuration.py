"""What an operator may set for a service: one definition of every setting, for the command line,
the environment and a file.

The command line comes first, then the environment (``FADECOUNT_MAX_BODY``), then the file (TOML,
``max-body = 1048576``), then the default. A service refuses a name that is not in the table: a
misspelt limit must not be silently without effect. Other commands look at the places of the store
alone, so that a variable of something else breaks none of them.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fadecount.errors import ParameterError, bad_parameter

PREFIX = "FADECOUNT_"
FILE_VARIABLE = "FADECOUNT_CONFIG"
OTHER_VARIABLES = frozenset(
    {FILE_VARIABLE, "FADECOUNT_KEY", "FADECOUNT_SPARK_LOG", "FADECOUNT_NAME", "FADECOUNT_UPSTREAM"}
)
"""Variables of the environment that are no settings of a service. The last two are those of the
proxy in deploy/."""
STORE_SETTINGS = ("state", "database", "fence", "key-file")

Kind = Literal["text", "path", "whole number", "number", "true or false", "texts"]
Value = str | Path | int | float | bool | tuple[str, ...]
_SHOWN = {"text": "text", "path": "text", "whole number": "a whole number", "number": "a number"}
_SHOWN |= {"true or false": "true or false", "texts": "a list of texts"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: its name (as an option without the hyphens before it), its kind, its default and
    one line about it."""

    name: str
    about: str
    kind: Kind = "text"
    default: Value | None = None
    metavar: str | None = None
    least: float | None = None
    choices: tuple[str, ...] = ()
    shown_default: str | None = None

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return PREFIX + self.name.upper().replace("-", "_")

    @property
    def attribute(self) -> str:
        """Its name in Python."""
        return self.name.replace("-", "_")

    def from_text(self, text: str, name: str) -> Value:
        """The value that a text of the environment or the command line gives."""
        if self.kind in ("whole number", "number"):
            try:
                number = int(text) if self.kind == "whole number" else float(text)
            except ValueError:
                raise bad_parameter(name, text, _SHOWN[self.kind], self.about) from None
            return self.checked(number, name)
        if self.kind == "true or false":
            if text.lower() not in ("true", "false"):
                raise bad_parameter(name, text, _SHOWN[self.kind], self.about)
            return text.lower() == "true"
        if self.kind == "texts":
            return tuple(each.strip() for each in text.split(",") if each.strip())
        return self.checked(Path(text) if self.kind == "path" else text, name)

    def from_file(self, value: object, name: str) -> Value:
        """The value that a file gives, which has types of its own."""
        if (
            self.kind == "texts"
            and isinstance(value, list)
            and all(isinstance(each, str) for each in value)
        ):
            return tuple(value)
        if self.kind == "true or false" and isinstance(value, bool):
            return value
        if self.kind == "whole number" and isinstance(value, int) and not isinstance(value, bool):
            return self.checked(value, name)
        if self.kind == "number" and isinstance(value, int | float) and not isinstance(value, bool):
            return self.checked(float(value), name)
        if self.kind in ("text", "path") and isinstance(value, str):
            return self.checked(Path(value) if self.kind == "path" else value, name)
        raise bad_parameter(name, value, _SHOWN[self.kind], self.about)

    def checked(self, value: str | Path | float, name: str) -> Value:
        """The value, if it is within its bounds."""
        if self.choices and value not in self.choices:
            raise bad_parameter(
                name,
                str(value),
                f"one of {', '.join(self.choices)}",
                "leave it out for the default",
            )
        if self.least is not None and not float(str(value)) >= self.least:  # NaN too
            raise bad_parameter(
                name, value, f"at least {self.least:g}", "leave it out for the default"
            )
        return value


SETTINGS = (
    Setting(
        name="state",
        about="folder of the embedded store and of the tokens",
        kind="path",
        metavar="DIR",
        shown_default="$XDG_DATA_HOME/fadecount, or ~/.local/share/fadecount",
    ),
    Setting(
        name="database", about="keep the streams in PostgreSQL: postgresql://...", metavar="URL"
    ),
    Setting(
        name="fence",
        about="folder or PostgreSQL URL of the rollback fence, apart from the store",
        metavar="WHERE",
        shown_default="$XDG_STATE_HOME/fadecount, or ~/.local/state/fadecount",
    ),
    Setting(
        name="key-file",
        about="key that seals the state",
        kind="path",
        metavar="FILE",
        shown_default="FADECOUNT_KEY, if set",
    ),
    Setting(name="host", about="address to listen on", default="127.0.0.1", metavar="HOST"),
    Setting(
        name="port",
        about="port to listen on, 0 for any",
        kind="whole number",
        default=8000,
        metavar="PORT",
        least=0,
    ),
    Setting(
        name="allow-host",
        about="host name to answer to; repeatable",
        kind="texts",
        default=(),
        metavar="NAME",
    ),
    Setting(
        name="public",
        about="let everyone read, without a token",
        kind="true or false",
        default=False,
    ),
    Setting(
        name="metrics-values",
        about="how many released counts /metrics shows at most, one per key",
        kind="whole number",
        default=0,
        metavar="N",
        least=0,
        shown_default="0, none",
    ),
    Setting(name="log-format", about="lines of the log", default="text", choices=("text", "json")),
    Setting(
        name="max-body",
        about="largest body, unpacked, in bytes",
        kind="whole number",
        default=1 << 20,
        metavar="BYTES",
        least=1,
        shown_default="1048576 (1 MiB)",
    ),
    Setting(
        name="max-connections",
        about="open connections",
        kind="whole number",
        default=1024,
        metavar="N",
        least=1,
    ),
    Setting(
        name="rate",
        about="requests a second per address",
        kind="number",
        default=0.0,
        metavar="N",
        least=0,
        shown_default="0, no limit",
    ),
    Setting(
        name="burst",
        about="requests at once before --rate",
        kind="whole number",
        default=200,
        metavar="N",
        least=1,
    ),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}


def configuration(
    given: Mapping[str, str | bool | list[str] | None],
    environment: Mapping[str, str],
    file: str | Path | None = None,
    *,
    only: Collection[str] | None = None,
) -> dict[str, Value | None]:
    """The value of every setting, by its name in Python: ``given`` on the command line, or in the
    environment, the file, or its default.

    Without ``file``, the variable ``FADECOUNT_CONFIG`` names one. Unknown names and wrong values
    are refused in one line. With ``only``, the variables of these settings alone are looked at.

    >>> found = configuration({"port": "9000"}, {"FADECOUNT_PORT": "1", "FADECOUNT_RATE": "2.5"})
    >>> found["port"], found["rate"], found["burst"]
    (9000, 2.5, 200)
    """
    found: dict[str, Value | None] = {setting.attribute: setting.default for setting in SETTINGS}
    place = file or environment.get(FILE_VARIABLE) or None
    if place is not None:
        found |= _from_file(Path(place))
    for name, text in sorted(environment.items()):
        setting = _BY_VARIABLE.get(name)
        if setting is not None and (only is None or setting.name in only):
            found[setting.attribute] = setting.from_text(text, name)
        elif only is None and name.startswith(PREFIX) and name not in OTHER_VARIABLES:
            raise ParameterError(
                f"{name} is no setting of the service; settings are listed in docs/service.md"
            )
    for setting in SETTINGS:
        value = given.get(setting.attribute)
        if isinstance(value, str):
            found[setting.attribute] = setting.from_text(value, setting.option)
        elif value is not None:
            found[setting.attribute] = tuple(value) if isinstance(value, list) else value
    return found


def _from_file(path: Path) -> dict[str, Value | None]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise bad_parameter(
            "settings file", str(path), "readable", error.strerror or "check the path"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError(
            f"settings file {str(path)!r} must be TOML: {str(error).splitlines()[0]}"
        ) from None
    found: dict[str, Value | None] = {}
    for name, value in content.items():
        if name not in _BY_NAME:
            raise ParameterError(
                f"{name!r} in {str(path)!r} is no setting of the service; settings are listed in"
                " docs/service.md"
            )
        found[_BY_NAME[name].attribute] = _BY_NAME[name].from_file(
            value, f"{name} in {str(path)!r}"
        )
    return found


def default_folder() -> Path:
    """The folder that the environment or the settings file names; else
    ``$XDG_DATA_HOME/fadecount``, by default ``~/.local/share/fadecount``."""
    chosen = configuration({}, os.environ, only=STORE_SETTINGS)["state"]
    if isinstance(chosen, Path):
        return chosen
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "fadecount"


def settings_table() -> str:
    """The reference table of all settings, in Markdown."""
    rows = ["| option | environment | in the file | default | meaning |", "|---|---|---|---|---|"]
    for each in SETTINGS:
        shown = (
            "none"
            if each.default is None and not each.shown_default
            else each.shown_default or _shown(each.default)
        )
        choices = f" ({' or '.join(each.choices)})" if each.choices else ""
        rows.append(
            f"| `{each.option}` | `{each.variable}` | `{each.name}` | {shown} |"
            f" {each.about}{choices} |"
        )
    return "\n".join(rows)


def _shown(value: Value | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value == () else str(value)
