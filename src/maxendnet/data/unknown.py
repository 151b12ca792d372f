"""The constant `UNKNOWN`, which represents an unknown label."""

from __future__ import annotations


class Unknown:
    """Type of the constant `UNKNOWN`, a singleton."""

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
"""Unknown label of a node in ``y``."""
