"""How the labels of one example depend on each other."""

from maxendnet.structures.choice import Choice
from maxendnet.structures.forest import Forest
from maxendnet.structures.hierarchy import Hierarchy

__all__ = ["Choice", "Forest", "Hierarchy"]
