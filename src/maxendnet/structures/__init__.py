"""How the labels of one example depend on each other."""

from maxendnet.structures.forest import Forest
from maxendnet.structures.hierarchy import Hierarchy

__all__ = ["Forest", "Hierarchy"]
