"""A structure with only the required methods, as a user would write one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from maxendnet.structures import BoundStructure, Chain, Structure


@dataclass(eq=False)
class BoundPlain(BoundStructure):
    """Bound structure with only the required methods; ``calls`` lists their uses."""

    inner: Any
    calls: list[str] = field(default_factory=list, repr=False)
    described = "a structure of a test"

    @property
    def layout(self):
        return self.inner.layout

    @property
    def n_labels(self):
        return self.inner.n_labels

    @property
    def offsets(self):
        return self.inner.offsets

    @property
    def y(self):
        return self.inner.y

    @property
    def sample_weight(self):
        return self.inner.sample_weight

    def take(self, first, last):
        return BoundPlain(self.inner.take(first, last), self.calls)

    def maximum(self, w, table=None, backend=None):
        self.calls.append("maximum")
        return self.inner.maximum(w, table, backend)

    def logsum(self, w, table=None, cliques=False, backend=None):
        self.calls.append("logsum")
        return self.inner.logsum(w, table, cliques, backend)

    def score(self, w, q):
        self.calls.append("score")
        return self.inner.score(w, q)

    def features(self, q, weight=None):
        self.calls.append("features")
        return self.inner.features(q, weight)


@dataclass(eq=False, repr=False)
class Plain(Structure):
    """Chains, bound to nothing but the protocol."""

    def layout(self, examples, classes):
        return Chain().layout(examples, classes)

    def bind(self, examples, classes, layout=None):
        return BoundPlain(Chain().bind(examples, classes, layout))
