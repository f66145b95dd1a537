"""Failures that nobody foresaw: a line for the operator, and an answer that says nothing."""

from __future__ import annotations

import logging
import traceback

from starlette.exceptions import HTTPException

from fadecount.service.problems import Problem, internal, not_found

log = logging.getLogger("fadecount.service")


def noted(error: Exception) -> Problem:
    """A line in the log that says what failed and where, without what it was about; and the answer to it."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    log.error("failed: %s in %s line %s", type(error).__name__, where.filename.rpartition("/")[2], where.lineno)
    return internal()


def from_starlette(error: HTTPException) -> Problem:
    """A refusal of the router as one of ours."""
    return not_found() if error.status_code == 404 else Problem(error.status_code, "refused", "the request is not understood")
