"""The service: HTTP in and out of durable streams, tokens and roles, and a page to look at.

``server.serve(Settings(storage=Storage(folder=...)), "127.0.0.1", 8000)`` is ``fadecount serve``.
"""
