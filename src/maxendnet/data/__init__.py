"""User input: examples and labels, checked once and stored as flat arrays."""

from maxendnet.data.batch import Batch, encode
from maxendnet.data.examples import Examples, as_examples

__all__ = ["Batch", "Examples", "as_examples", "encode"]
