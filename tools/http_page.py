"""The reference of the HTTP interface, as Markdown made from its OpenAPI description."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_HEAD = """# HTTP interface

Every route of the service, its parameters, bodies and answers. A running service describes itself
at `GET /v1/openapi.json`. The same description is in the file [openapi.json](openapi.json).
[The service](service.md) explains how the routes work together.

Send a token as `Authorization: Bearer TOKEN`.
"""
_ERRORS = """## Errors

Every error is `application/problem+json` ([Refusal](#refusal)). It never repeats what
was sent.
"""
Node = Mapping[str, Any]


def http_page(document: Node) -> str:
    """All routes, then all errors, then all objects."""
    errors: dict[str, str] = {}
    routes = [
        line
        for path, methods in document["paths"].items()
        for line in _route(path, methods, errors)
    ]
    listed = [
        "| status | meaning |",
        "|---|---|",
        *(f"| {status} | {text} |" for status, text in sorted(errors.items())),
    ]
    objects = [
        line
        for name, schema in document["components"]["schemas"].items()
        for line in _object(name, schema)
    ]
    return (
        "\n".join(
            [_HEAD, "## Routes\n", *routes, _ERRORS, *listed, "\n## Objects\n", *objects]
        ).rstrip("\n")
        + "\n"
    )


def _route(path: str, methods: Node, errors: dict[str, str]) -> Iterator[str]:
    for method, route in methods.items():
        yield f"### {method.upper()} {path}\n"
        yield f"{_sentence(route['summary'])} {route.get('description', 'Open to everyone.')}\n"
        if route.get("parameters"):
            yield "| parameter | in | value |\n|---|---|---|"
            yield from (_parameter(each) for each in route["parameters"])
            yield ""
        if "requestBody" in route:
            yield f"Body: {_contents(route['requestBody'])}.\n"
        for status, answer in route["responses"].items():
            if status.startswith(("4", "5")) and "application/problem+json" in answer.get(
                "content", {}
            ):
                errors[status] = answer["description"]
                continue
            what = _contents(answer)
            yield (
                f"Answer {status}{': ' + what if what else ''}."
                f" {_sentence(answer['description'])}\n"
            )


def _parameter(each: Node) -> str:
    needed = ", required" if each.get("required") else ""
    return f"| `{each['name']}` | {each['in']}{needed} | {_value(each['schema'])} |"


def _contents(holder: Node) -> str:
    return ", or ".join(
        f"{_value(each['schema'])} as `{media}`"
        for media, each in holder.get("content", {}).items()
    )


def _object(name: str, schema: Node) -> Iterator[str]:
    yield f"### {name}\n"
    yield f"{' '.join(schema.get('description', '').split())}\n"
    properties = schema.get("properties", {})
    if properties:
        yield "| field | value |\n|---|---|"
        for field, value in properties.items():
            needed = "" if field in schema.get("required", ()) else ", optional"
            yield f"| `{field}` | {_value(value)}{needed} |"
        yield ""


def _value(schema: Node) -> str:
    """A schema in a few words."""
    about = f": {schema['description']}" if "description" in schema else ""
    return (_kind(schema) + about).replace("|", "\\|")


def _kind(schema: Node) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(_value(each) for each in schema[choice])
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    kind = str(schema.get("type", "any value"))
    if kind == "array":
        return f"list of {_value(schema.get('items', {}))}{_limits(schema, 'minItems', 'maxItems')}"
    if choices := re.fullmatch(r"\^\(([\w|]+)\)\$", schema.get("pattern", "")):
        return " or ".join(f"`{each}`" for each in choices[1].split("|"))
    return (
        kind
        + _limits(schema, "minimum", "maximum")
        + _limits(schema, "minLength", "maxLength", " characters")
    )


def _limits(schema: Node, low: str, high: str, unit: str = "") -> str:
    parts = [
        f"{word} {schema[name]:,}"
        for word, name in (("at least", low), ("at most", high))
        if name in schema
    ]
    return f", {' and '.join(parts)}{unit}" if parts else ""


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if text.endswith(".") else f"{text}."
