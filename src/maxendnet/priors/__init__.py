"""Priors over the weights.

A prior defines a cumulant phi, its derivatives, and its conjugate, which is the penalty. Some priors define only a
penalty.

To add a prior, see docs/extend/prior.md. The tests of mathematical laws run on every prior, and fail if a prior is
missing from `__all__`.
"""

from __future__ import annotations

from maxendnet.priors.base import ExactPrior, Prior
from maxendnet.priors.elastic_net import ElasticNet
from maxendnet.priors.exponential import Exponential
from maxendnet.priors.flat import Flat
from maxendnet.priors.gaussian import Gaussian
from maxendnet.priors.jeffreys import Jeffreys
from maxendnet.priors.l1 import L1
from maxendnet.priors.l1_ball import L1Ball
from maxendnet.priors.laplace import Laplace
from maxendnet.priors.normal_gamma import NormalGamma
from maxendnet.priors.normal_inverse_gaussian import NormalInverseGaussian
from maxendnet.priors.spike_slab import SpikeSlab
from maxendnet.priors.squared_l1 import SquaredL1
from maxendnet.priors.student_t import StudentT
from maxendnet.priors.uniform import Uniform

__all__ = [
    "L1",
    "ElasticNet",
    "ExactPrior",
    "Exponential",
    "Flat",
    "Gaussian",
    "Jeffreys",
    "L1Ball",
    "Laplace",
    "NormalGamma",
    "NormalInverseGaussian",
    "Prior",
    "SpikeSlab",
    "SquaredL1",
    "StudentT",
    "Uniform",
]
