"""Model selection: regularisation paths and cross-validation."""

from maxendnet.selection.node_scorer import node_scorer
from maxendnet.selection.regularisation_path import path
from maxendnet.selection.search import PathSearchCV, default_grid

__all__ = ["PathSearchCV", "default_grid", "node_scorer", "path"]
