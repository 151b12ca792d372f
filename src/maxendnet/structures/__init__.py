"""How the labels of one example depend on each other."""

from maxendnet.structures.forest import Forest

__all__ = ["Forest"]
