"""The inverse: from the losses and errors that someone wants to the mechanism that gives them."""

from fadecount.planning.design import design
from fadecount.planning.targets import Person

__all__ = ["Person", "design"]
