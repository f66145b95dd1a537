"""A long comparison of draws with exact arithmetic: ``make exactness``. The ordinary tests hold a
short version."""
