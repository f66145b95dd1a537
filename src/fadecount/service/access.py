"""Who may do what: one table of roles and actions, one function that checks it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from starlette.types import Scope

from fadecount.service.problems import forbidden, unauthorized, unavailable
from fadecount.service.tokens import Grant, KnownTokens, Role

_GRANT = "fadecount.grant"
"""Where a request keeps the grant of its token, so that the token is looked up once."""


class Action(StrEnum):
    """What a route does: the unit of permission."""

    READ = "read"
    WRITE = "write"
    MANAGE = "manage"


ALLOWED: Mapping[Role, frozenset[Action]] = {
    Role.READER: frozenset({Action.READ}),
    Role.WRITER: frozenset({Action.WRITE}),
    Role.ADMIN: frozenset(Action),
}


class Access:
    """Decides whether a request is allowed. With ``public``, reading needs no token; everything
    else always needs one.

    A wrong stream and an unknown stream get the same refusal, so a token of one stream cannot find
    out which others exist.
    """

    def __init__(self, tokens: KnownTokens, *, public: bool) -> None:
        self._tokens = tokens
        self._public = public

    def allow(self, scope: Scope, action: Action, stream: str | None) -> Grant | None:
        """What allows the request to do ``action`` on ``stream`` (None: on no stream in
        particular); raises a Problem if nothing does. The grant is None where no token is
        needed."""
        if self._public and action is Action.READ and _authorization(scope) is None:
            return None
        grant = self._grant(scope)
        self.require(grant, action, stream)
        return grant

    def require(self, grant: Grant, action: Action, stream: str | None) -> None:
        """Refuse what a token that was recognised does not allow."""
        if action not in ALLOWED[grant.role] or (
            grant.stream is not None and grant.stream != stream
        ):
            raise forbidden()

    def allow_some(self, scope: Scope, action: Action) -> Grant:
        """Refuse a token that allows ``action`` on no stream at all, before its body is read."""
        grant = self._grant(scope)
        if action not in ALLOWED[grant.role]:
            raise forbidden()
        return grant

    def still(self, grant: Grant | None) -> bool:
        """Whether a grant given earlier is still valid: neither revoked nor expired."""
        return grant is None or (self._tokens.is_current and self._tokens.is_valid(grant))

    def trouble(self) -> str | None:
        """Why every token is refused; None if the tokens are known."""
        return None if self._tokens.is_current else "the tokens cannot be read from the store"

    def visible(self, scope: Scope) -> str | None:
        """The one stream that a reader of the list may see, or None for all of them."""
        if self._public and _authorization(scope) is None:
            return None
        grant = self._grant(scope)
        if Action.READ not in ALLOWED[grant.role]:
            raise forbidden()
        return grant.stream

    def _grant(self, scope: Scope) -> Grant:
        """What the token of a request allows. The token is looked up once for each request."""
        if _GRANT not in scope:
            if reason := self.trouble():
                raise unavailable(reason)
            scheme, _, token = (_authorization(scope) or b"").decode("latin-1").partition(" ")
            bearer = scheme.lower() == "bearer"
            scope[_GRANT] = self._tokens.grant_of(token.strip()) if bearer else None
        grant: Grant | None = scope[_GRANT]
        if grant is None:
            raise unauthorized()
        return grant


def _authorization(scope: Scope) -> bytes | None:
    for name, value in scope["headers"]:
        if name == b"authorization":
            sent: bytes = value
            return sent
    return None
