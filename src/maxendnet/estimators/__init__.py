"""Estimators: rows of the table prior x loss, with the scikit-learn API."""

from typing import TYPE_CHECKING

from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.estimators.table import CRF, L1CRF, L1M3N, L2CRF, M3N, LapMEDN, MaxEnDNet
from maxendnet.utils.lazy import lazily

if TYPE_CHECKING:
    from maxendnet.estimators import pipeline as pipeline  # lazy: it imports transformers of scikit-learn

_, __getattr__, __dir__ = lazily(__name__, __file__)

__all__ = ["CRF", "L1CRF", "L1M3N", "L2CRF", "M3N", "LapMEDN", "MarkovNetwork", "MaxEnDNet"]
