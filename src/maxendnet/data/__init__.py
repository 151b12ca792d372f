"""Data in: whatever form it comes in, checked once and laid out as flat arrays and offsets."""

from maxendnet.data.batch import Batch, encode
from maxendnet.data.examples import Examples, as_examples

__all__ = ["Batch", "Examples", "as_examples", "encode"]
