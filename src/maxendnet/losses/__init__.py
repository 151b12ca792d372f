"""Losses: hinge and log loss."""

from maxendnet.losses.hinge import Hinge
from maxendnet.losses.log import Log

__all__ = ["Hinge", "Log"]
