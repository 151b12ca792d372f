"""Parts of the examples, each with its own dual point, that are updated in parallel (CoCoA).

Let K parts start at the same ``eta``, and let part k change it by ``d_k``. The cumulant phi is convex, so
``phi(eta + sum d_k)`` is at most ``1/K sum phi(eta + K d_k)``. If every part increases its share of the gain minus
``phi(eta + K d_k) / K``, the dual of the sum therefore does not decrease, for any prior. (Changes that are computed for
``phi`` itself could even leave its domain when they are added.) Multiplied by K, the objective of a part is the dual of
its examples alone, with K times their dual weights and K times C. It is thus a problem of the same form.

Based on Jaggi et al. 2014 and Ma et al. 2015 (safe adding), who treat smooth conjugates.

A part is held by the backend, in this process or on a worker, and is changed in place. The functions below run where
the part is held, and only the sums of their results are returned. A fit in one process uses a single part by default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.backends import Partial, Threads
from maxendnet.problem import FloatArray, Problem
from maxendnet.problem.placed import PlacedData
from maxendnet.solvers.base import WorkerLost
from maxendnet.solvers.blocks import updates as block_updates
from maxendnet.solvers.blocks.updates import BlockState


@dataclass
class Part:
    """A part of the examples, with its dual point."""

    problem: Problem
    """The problem of these examples alone, with K times C."""
    state: BlockState
    K: int
    """Number of parts."""
    n_changes: int = 0
    """Number of changes so far."""
    picks: list[NDArray[np.int64]] = field(default_factory=list)
    """Examples to update in each round of the current pass."""

    def expect(self, n_changes: int) -> None:
        """Raise `WorkerLost` if a worker died and took the last changes with it."""
        if self.n_changes != n_changes:
            raise WorkerLost(f"A part of the examples has {self.n_changes} changes; {n_changes} were expected.")

    def share(self, change: float = 0.0) -> Partial:
        """Return the share of this part in eta, ``sum alpha l`` and the sum of block gaps.

        ``change`` is the last change of ``sum alpha l``. Right after an update in which all parts start at the same
        eta, the shares add up to that eta plus all changes.
        """
        state, K = self.state, self.K
        gaps = float(state.gaps.sum()) / K
        return Partial(change / K, state.eta / K, state.sets.total_cost() / K, relaxation_gap=gaps)


def make_part(
    structure: Any, loss: Any, prior: Any, C: float, K: int, first: tuple[float, Any, float], state: BlockState | None,
    n_changes: int,
) -> Part:  # fmt: skip
    """Return a part with a copy of ``state``; if it is None, with a new state from ``first``, its C, seed and tol."""
    problem = Problem(PlacedData(structure, Threads()), loss, prior, C)
    if state is None:
        return Part(problem, block_updates.first_state(problem, *first), K)
    return Part(problem, state.copy(), K, n_changes)


def size(part: Part) -> tuple[float, int]:
    """Return the work of a pass over the part (in multiplications), and its number of examples."""
    structure = part.problem.structure
    return float(structure.offsets[-1]) * structure.work_per_node, part.problem.n_examples


def update(
    part: Part, n_changes: int, eta: FloatArray, number: int, n_rounds: int, sampling: str, inner: int
) -> Partial:
    """Update the examples of one round of a pass, starting at ``eta``."""
    part.expect(n_changes)
    problem, state = part.problem, part.state
    if part.K > 1:
        _set_eta(part, eta)
    if number == 0:
        part.picks = np.array_split(block_updates.draw(problem, state, sampling), n_rounds)
    change = block_updates.update(problem, state, part.picks[number], inner)
    part.n_changes += 1
    return part.share(change)


def rescale(part: Part, n_changes: int, factor: float, share: float, C: float) -> Partial:
    """Scale the dual point by ``factor``, to another C, and then by ``share``."""
    part.expect(n_changes)
    part.state.sets.scale(factor, share)
    part.state.C = part.K * C
    block_updates.refresh_eta(part.problem, part.state)
    block_updates.set_weights(part.problem, part.state)
    part.n_changes += 1
    return part.share()


def refresh(part: Part, n_changes: int) -> Partial:
    """Recompute eta from the active labellings, so that a certificate holds for exactly this dual point."""
    part.expect(n_changes)
    block_updates.refresh_eta(part.problem, part.state)
    part.n_changes += 1
    return part.share()


def evaluate(part: Part, n_changes: int, eta: FloatArray) -> Partial:
    """Recompute all block gaps at the weights of ``eta``, and return the sum of hinge losses there."""
    part.expect(n_changes)
    _set_eta(part, eta)
    mu = part.problem.dual_prior.mean(part.problem.structure.blocks.unpad(eta))
    hinge = block_updates.block_gaps(part.problem, part.state, mu)
    part.n_changes += 1
    loss = float(hinge @ part.problem.batch.sample_weight)
    return part.share()._replace(loss=loss, gradient=np.zeros(0))


def losses_at(part: Part, w: FloatArray) -> Partial:
    """Return the sum of losses of the part at the weights ``w``."""
    return Partial(part.problem.loss_and_gradient(w, gradient=False).loss)


def collect(part: Part, n_changes: int) -> BlockState:
    """Return a copy of the state."""
    part.expect(n_changes)
    return part.state.copy()


def _set_eta(part: Part, eta: FloatArray) -> None:
    """Set eta and the weights, and leave the active labellings unchanged."""
    part.state.eta[:] = eta
    block_updates.set_weights(part.problem, part.state)
