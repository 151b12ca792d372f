"""One learning problem: examples, structure, loss, prior and C, and the sums a solver needs of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends import Threads
from maxendnet.backends.threads import Range, cut
from maxendnet.data.batch import Batch
from maxendnet.losses import Hinge, Log
from maxendnet.priors import Flat
from maxendnet.structures import Forest
from maxendnet.structures.forest import single_is_enough

FloatArray = NDArray[np.float64]


class Blocks(NamedTuple):
    """Groups of whole examples, some hundred nodes each: the unit in which gradients are gathered."""

    examples: NDArray[np.int64]
    shards: list[list[Range]]


@dataclass
class Problem:
    """``minimise over w: prior.penalty(w) + C * sum_i weight_i * loss_i(w)``.

    Parameters
    ----------
    batch : Batch
    structure : Forest or Hierarchy
    loss : Hinge or Log
    prior : a prior
    C : float
    backend : Threads
    """

    batch: Batch
    structure: Forest
    loss: Any
    prior: Any
    C: float = 1.0
    backend: Threads = field(default_factory=Threads)

    def __post_init__(self) -> None:
        if not (isinstance(self.C, (int, float, np.number)) and np.isfinite(self.C) and self.C > 0):
            raise ValueError(f"C must be a positive finite number, got {self.C!r}; larger C fits the examples closer.")
        self.prior.check()
        self.loss.check()
        L = self.structure.n_labels
        self.cost = self.loss.cost_matrix(L) if isinstance(self.loss, Hinge) else np.zeros((L, L))
        self.n_oracle = 0

    @property
    def cost_is_small(self) -> bool:
        """Whether label costs fit a search in float32."""
        return float(self.cost.max(initial=0.0)) < 1e5

    @property
    def n_examples(self) -> int:
        return len(self.batch.offsets) - 1

    @property
    def n_weights(self) -> int:
        return self.structure.n_weights

    def with_prior(self, prior: Any, C: float | None = None) -> Problem:
        """The same examples under another prior; what is cached about them is kept."""
        other = Problem(self.batch, self.structure, self.loss, prior, self.C if C is None else C, self.backend)
        for name in ("shards", "blocks", "augmented", "fingerprint"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    @cached_property
    def fingerprint(self) -> str:
        """The same for the same examples, structure and loss, whatever the prior and C.

        Bounds on a sum of losses (cuts, dual points) hold for these examples alone: a solver that starts from an
        earlier state asks whether they are the same.
        """
        what = f"{self.structure!r} {type(self.loss).__name__} {getattr(self.loss, 'slack', '')}"
        digest = hashlib.blake2b(what.encode() + self.cost.tobytes(), digest_size=16)
        for array in self.batch[:-2]:
            digest.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def loss_scales(self, C: float) -> bool:
        """Whether a bound on the sum of losses that was found under another C holds here too."""
        return C == self.C or not getattr(self.loss, "depends_on_C", False)

    # ---- the sum over examples ----------------------------------------------------------------------------------

    def losses(self, w: FloatArray, gradient: bool = True, single: bool = False) -> tuple[float, FloatArray]:
        """``sum_i weight_i loss_i(w)`` and a (sub)gradient of it.

        Parameters
        ----------
        w : ndarray of shape (n_weights,)
        gradient : bool, default=True
        single : bool, default=False
            Search in float32 where the numbers allow it; what is reported should be computed with False.
        """
        self.n_oracle += self.n_examples
        single = single and self.cost_is_small and single_is_enough(w, self.batch)
        values, slope = self.loss.evaluate(self, w, gradient, single)
        return float(values @ self.batch.weights), slope

    def gibbs(self, A: float, W: FloatArray, B: float = 0.0) -> tuple[float, FloatArray, float]:
        """The dual point ``alpha_i(y) = C u_i p_i(y)``, p_i of the potentials ``A l_i(y) + W . f(x_i, y) + B r_i(y)``.

        That is, ``p_i(y)`` is proportional to their exponential; ``r_i(y)`` is the number of nodes that are right, so
        that a large B is near the true labellings. All examples share A, B and W: the point needs no memory of its own,
        and to look at it is one sum-product.

        Returns
        -------
        value : float
            ``-sum_i u_i log p_i(y_i)``: convex in (A, W, B), so that divergences between such points follow from it.
        eta : ndarray of shape (n_weights,)
            ``sum alpha df``.
        cost : float
            ``sum alpha l``.
        """
        self.n_oracle += self.n_examples
        value, slope = self.augmented.losses(np.concatenate([W, [A, B]]))
        return value, -self.C * slope[:-2], self.C * float(slope[-2])

    @cached_property
    def augmented(self) -> Problem:
        """The same examples under the log loss, with two more tied features: cost of a label, whether it is right."""
        batch, s = self.batch, self.structure
        extra = np.stack([self.cost[batch.y], np.eye(s.n_labels)[batch.y]], axis=2)
        batch = batch._replace(
            label_features=np.ascontiguousarray(
                np.concatenate([batch.label_features, extra], axis=2) if s.n_tied else extra
            ),
            largest=max(batch.largest, float(self.cost.max(initial=1.0))),
        )
        return Problem(batch, replace(s, n_tied=s.n_tied + 2), Log(), Flat(), backend=self.backend)

    def primal(self, w: FloatArray) -> float:
        """The objective at w."""
        return self.prior.penalty(w) + self.C * self.losses(w, gradient=False)[0]

    def dual(self, eta: FloatArray, cost: float) -> tuple[float, float]:
        """The best dual value along the ray from 0 to a dual point, and where on the ray it is.

        ``cost = sum alpha l - slack_price`` and ``eta = sum alpha df`` scale alike, and any share in [0, 1] of a dual
        point is one (the rest of the weight goes to the true labelling). So a point outside the domain of the cumulant
        still gives a bound. (The price of a share is at most that share of the price, since it is convex.)
        """
        prior = self.prior
        # a convex penalty that belongs to no density has a conjugate too, and a subgradient in the place of the mean
        density = hasattr(prior, "cumulant")
        phi, slope = (prior.cumulant, prior.mean) if density else (prior.conjugate, prior.conjugate_slope)
        rising = lambda s: np.isfinite(phi(s * eta)) and cost >= eta @ slope(s * eta)  # noqa: E731
        low, high = (1.0, 1.0) if rising(1.0) else (0.0, 1.0)
        while high - low > 1e-6 * high:  # the dual is concave along the ray
            middle = 0.5 * (low + high)
            low, high = (middle, high) if rising(middle) else (low, middle)
        return low * cost - phi(low * eta), low

    def slack_price(self, alpha: FloatArray) -> float:
        """``sum_i u_i U*(alpha_i / u_i)`` for dual weights ``alpha_i = sum_y alpha_i(y)``: the dual's share of U.

        The dual of a hinge model is ``max sum alpha l - phi(eta) - slack_price``; where the slack is linear the price
        is 0 up to ``C u_i`` and infinite beyond. An example of weight 0 has no dual weight.
        """
        some = self.batch.weights > 0
        u = self.batch.weights[some]
        return float(u @ self.loss.slack_function.conjugate(alpha[some] / u, self.C))

    @cached_property
    def at_zero(self) -> float:
        """P(0), the scale of the relative gap. A prior that forbids 0 is asked at its own mean."""
        zero = np.zeros(self.n_weights)
        value = self.primal(zero)
        return value if np.isfinite(value) else self.primal(self.prior.mean(zero))

    def relative(self, gap: float, primal: float, constant: float = 0.0) -> float:
        """A duality gap as a share of the objective (without ``constant``), guarded for objectives near zero."""
        return max(gap, 0.0) / max(abs(primal - constant), 1e-3 * abs(self.at_zero), np.finfo(float).tiny)

    def sum_over(self, shards: list[list[Range]], part: Callable[[int, int, Any], None], gradient: bool) -> FloatArray:
        """Run ``part(first, last, buffer)`` over shards, one buffer each; the sum of the buffers, added in order."""
        buffers: list[Any] = [np.zeros(self.structure.padded_size) if gradient else None for _ in shards]
        self.backend.run(lambda first, last, shard: part(first, last, buffers[shard]), shards)
        if not gradient:
            return np.zeros(0)
        total = buffers[0] if buffers else np.zeros(self.structure.padded_size)
        for buffer in buffers[1:]:
            total += buffer
        return self.structure.unpad(total)

    @cached_property
    def shards(self) -> list[list[Range]]:
        return self.structure.shards(self.batch, self._n_shards)

    @property
    def _n_shards(self) -> int:
        # Every shard has a gradient of its own, to be cleared and added: at most a quarter of the work, 16 at most.
        work = self.structure.work_per_node(self.batch) * len(self.batch.parent)
        return int(np.clip(work / (4 * self.structure.padded_size + 1e6), 1, 16))

    @cached_property
    def blocks(self) -> tuple[Blocks, _kernels.Groups]:
        """Blocks of about 512 nodes (their marginals fit the second cache), with their features transposed."""
        offsets = self.batch.offsets
        n_blocks = max(1, int(offsets[-1]) // 512)
        ranges = [r for shard in cut(offsets, n_blocks, 1 << 60) for r in shard]
        examples = np.array([first for first, _ in ranges] + [self.n_examples], dtype=np.int64)
        per_range = max(1, int(5e7 / (self.structure.work_per_node(self.batch) * 512)))
        blocks = Blocks(examples, cut(np.arange(len(examples), dtype=np.int64), self._n_shards, per_range))
        return blocks, self._groups(np.ascontiguousarray(offsets[examples]))

    def _groups(self, node_offsets: NDArray[np.int64]) -> _kernels.Groups:
        batch = self.batch
        n_features = self.structure.n_features
        arrays = _kernels.group_features(batch.indptr, batch.indices, batch.data, node_offsets, n_features)
        return _kernels.Groups(node_offsets, *arrays)
