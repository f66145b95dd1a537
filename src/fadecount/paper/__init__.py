"""The evaluation of the paper, reproduced through the front door: its figures, its table, and what real noise does.

*The paper* is Andersson, Henzinger, Pagh, Steiner and Upadhyay, "Continual Counting with Gradual Privacy Expiration",
NeurIPS 2024.
"""

from fadecount.paper.empirical import empirical_losses
from fadecount.paper.table import TABLE, TableRow

__all__ = ["TABLE", "TableRow", "empirical_losses"]
