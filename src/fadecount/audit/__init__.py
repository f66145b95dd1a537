"""Audit: what an outsider can show about the privacy loss of a running mechanism, beside what it claims."""

from fadecount.audit.attack import Finding, audit

__all__ = ["Finding", "audit"]
