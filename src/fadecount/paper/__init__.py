"""The evaluation of the paper, reproduced with the public library: its figures, its table, and
measurements with real noise.

*The paper* is Andersson, Henzinger, Pagh, Steiner and Upadhyay, "Continual Counting with Gradual
Privacy Expiration", NeurIPS 2024.
"""

from fadecount.paper.empirical import empirical_losses
from fadecount.paper.table import TABLE, TableRow

__all__ = ["TABLE", "TableRow", "empirical_losses"]
