"""The service: HTTP in and out of durable streams, tokens and roles, and a page to look at."""
