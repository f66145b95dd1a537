"""Every exception of fadecount.

One base class, so that ``except FadecountError`` catches all of it. A message names the parameter,
its value, the bound and a remedy, on one line. The value of an *input* (a true count) is never part
of a message: see :class:`InputError`.
"""

from __future__ import annotations


class FadecountError(Exception):
    """Base class of everything that fadecount raises on purpose."""


class ParameterError(FadecountError, ValueError):
    """A parameter lies outside its bounds. The parameter's value is public, so the message shows
    it."""


class InputError(FadecountError, ValueError):
    """An input of a counter is unusable. The message never shows the input: it is what the counter
    protects."""


class MissingExtraError(FadecountError, ImportError):
    """A package that is not installed is needed; the message names the extra that brings it."""


class SumOverflowError(FadecountError, OverflowError):
    """The running sum would leave the range in which it is exact. Nothing was counted."""


class HorizonError(FadecountError):
    """The mechanism was described for fewer steps than asked for. Nothing was counted."""


class ForkedError(FadecountError):
    """A counter, or noise drawn ahead for it, is used in a forked child process. Nothing was
    counted."""


class SavedStateError(FadecountError, ValueError):
    """Saved bytes are not a state of fadecount: truncated, altered, foreign, or from a newer
    version."""


class StoreError(FadecountError):
    """A store cannot be used: an input or output error, damage, a missing key. What was committed
    is safe; nothing else was done.
    """


class DatabaseError(StoreError):
    """The database of a store, or that of its fence, has failed: a full disk, a lost connection.
    All of its streams are affected."""


class LockedError(StoreError):
    """Another process writes to the store or the stream."""


class RemovedError(FadecountError):
    """The figures asked for were removed: the stream keeps them for a limited time."""


class FenceError(StoreError):
    """The store is not the latest one of which figures were published: an old backup, a copy that
    ran elsewhere, or a new store in the place of one that is lost.
    """


class AlreadyReleasedError(FadecountError):
    """Inputs for ticks that are closed and released. Nothing was counted."""


class ClockError(FadecountError):
    """The clock (or an input's time) is so far away that ticks would be closed by mistake. Nothing
    was released."""


class FullError(FadecountError):
    """One day brought more hidden keys than a stream takes. It stops."""


class CheckpointError(FadecountError):
    """A checkpoint belongs to another stream than the one asked for. Nothing was released."""


def missing_extra(what: str, package: str, extra: str) -> MissingExtraError:
    """The error for a package that is not installed, in the one form that all of fadecount uses.

    >>> print(missing_extra("plots", "matplotlib", "plots"))
    plots need the package matplotlib; in a checkout of fadecount: pip install '.[plots]'
    """
    needs = "need" if what.endswith("s") and not what.endswith("ss") else "needs"
    # fadecount is on no package index, so its name alone could install something else
    install = f"in a checkout of fadecount: pip install '.[{extra}]'"
    return MissingExtraError(f"{what} {needs} the package {package}; {install}")


def bad_parameter(name: str, value: object, bound: str, remedy: str) -> ParameterError:
    """The error for a parameter outside its bounds, in the one form that all of fadecount uses."""
    return ParameterError(f"{name} must be {bound}, got {_shown(value)}; {remedy}")


def _shown(value: object) -> str:
    """On one line, and short. An integer of thousands of digits has no text at all in Python."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:
        text = f"{type(value).__name__} too large to show"
    return text if len(text) <= 60 else text[:57] + "..."
