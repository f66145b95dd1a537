"""Campaigns against the service: crash, load, soak, fuzz."""
