"""Audit: compares the privacy loss that an outsider can demonstrate for a running mechanism with
the claimed loss."""

from fadecount.audit.attack import Finding, audit

__all__ = ["Finding", "audit"]
