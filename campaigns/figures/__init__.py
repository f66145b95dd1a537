"""How often the bands of views hold the truth: ``python -m campaigns.figures``."""
