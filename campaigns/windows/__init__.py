"""How often the error intervals of windows hold the truth: ``python -m campaigns.windows``."""
