"""The service: HTTP in and out of durable streams, tokens and roles, and a page to look at.

``serve(Settings(storage=Storage(folder=...)), "127.0.0.1", 8000)`` is what ``fadecount serve``
does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fadecount.service.client import ServiceError
    from fadecount.service.server import configure_logs, serve
    from fadecount.service.settings import (
        FastClock,
        Limits,
        Settings,
        Storage,
        open_store,
        open_tokens,
    )
    from fadecount.service.tokens import Role

__all__ = [
    "FastClock",
    "Limits",
    "Role",
    "ServiceError",
    "Settings",
    "Storage",
    "configure_logs",
    "open_store",
    "open_tokens",
    "serve",
]
_HOMES = {
    "FastClock": "settings",
    "Limits": "settings",
    "Role": "tokens",
    "ServiceError": "client",
    "Settings": "settings",
    "Storage": "settings",
    "configure_logs": "server",
    "open_store": "settings",
    "open_tokens": "settings",
    "serve": "server",
}


def __getattr__(name: str) -> Any:
    """Load these names on first use: the client does not need them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
