"""Random mechanisms with a head start, against every item one by one and against linear programs:
``make head-start``."""

from campaigns.head_start.cases import Case, brute_force, random_case

__all__ = ["Case", "brute_force", "random_case"]
