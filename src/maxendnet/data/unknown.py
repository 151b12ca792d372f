"""The value that stands for a label that is not known."""

from __future__ import annotations


class Unknown:
    """The type of `UNKNOWN`; there is one value of it."""

    _only: Unknown | None = None

    def __new__(cls) -> Unknown:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __reduce__(self) -> str:
        return "UNKNOWN"  # copies and pickles are the same object


UNKNOWN = Unknown()
"""In ``y``: the label of this node is not known."""
