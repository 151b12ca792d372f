"""How much a wrong labelling hurts."""

from maxendnet.losses.hinge import Hinge
from maxendnet.losses.log import Log

__all__ = ["Hinge", "Log"]
