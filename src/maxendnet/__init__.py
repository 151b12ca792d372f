"""Max-margin structured prediction with a posterior over weights.

>>> from maxendnet import LapMEDN
>>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "dogs"}]]
>>> model = LapMEDN(C=10).fit(X, [["DET", "NOUN"], ["NOUN"]])
>>> model.predict([[{"word": "the"}, {"word": "dogs"}]])
[['DET', 'NOUN']]
"""

from typing import TYPE_CHECKING

from maxendnet.utils.lazy import lazily
from maxendnet.version import __version__ as __version__

if TYPE_CHECKING:
    from maxendnet import backends as backends
    from maxendnet import certificates as certificates
    from maxendnet import data as data
    from maxendnet import estimators as estimators
    from maxendnet import losses as losses
    from maxendnet import models as models
    from maxendnet import posterior as posterior
    from maxendnet import priors as priors
    from maxendnet import solvers as solvers
    from maxendnet import structures as structures
    from maxendnet.data.examples import Examples
    from maxendnet.data.folder import FolderError
    from maxendnet.data.grids import grid_edges
    from maxendnet.data.unknown import UNKNOWN
    from maxendnet.estimators import CRF, L1CRF, L1M3N, L2CRF, M3N, LapMEDN, MaxEnDNet
    from maxendnet.estimators.file import ModelFileError, load, save
    from maxendnet.estimators.multi_label import MultiLabel
    from maxendnet.losses import Hinge, Log
    from maxendnet.models.checkpoint import CheckpointError
    from maxendnet.preprocessing import KernelFeatures, OnNodes
    from maxendnet.priors import (
        L1,
        ElasticNet,
        Exponential,
        Flat,
        Gaussian,
        Jeffreys,
        L1Ball,
        Laplace,
        NormalGamma,
        NormalInverseGaussian,
        SpikeSlab,
        SquaredL1,
        StudentT,
        Uniform,
    )
    from maxendnet.selection.regularisation_path import path
    from maxendnet.selection.search import PathSearchCV
    from maxendnet.structures import Chain, Choice, Graph, Independent, Tree

_, __getattr__, __dir__ = lazily(__name__, __file__)

__all__ = [
    "CRF",
    "L1",
    "L1CRF",
    "L1M3N",
    "L2CRF",
    "M3N",
    "UNKNOWN",
    "Chain",
    "CheckpointError",
    "Choice",
    "ElasticNet",
    "Examples",
    "Exponential",
    "Flat",
    "FolderError",
    "Gaussian",
    "Graph",
    "Hinge",
    "Independent",
    "Jeffreys",
    "KernelFeatures",
    "L1Ball",
    "LapMEDN",
    "Laplace",
    "Log",
    "MaxEnDNet",
    "ModelFileError",
    "MultiLabel",
    "NormalGamma",
    "NormalInverseGaussian",
    "OnNodes",
    "PathSearchCV",
    "SpikeSlab",
    "SquaredL1",
    "StudentT",
    "Tree",
    "Uniform",
    "grid_edges",
    "load",
    "path",
    "save",
]
