"""Parts of the examples, each with a dual point of its own, that are updated at the same time: CoCoA.

With K parts that begin at the same ``eta`` and change it by ``d_k`` each, ``phi(eta + sum d_k)`` is at most
``1/K sum phi(eta + K d_k)``, since the cumulant is convex. So if every part raises its share of the dual minus
``phi(eta + K d_k) / K``, the dual of the sum does not decrease, for any prior; adding changes computed for ``phi``
itself could even leave its domain. Times K, the objective of a part is the dual of its examples alone with K times
their dual weights and K times C: a problem of the same kind.

After Jaggi et al. 2014 and Ma et al. 2015 (safe adding), who treat smooth conjugates.

A part lives where the backend holds it, in this process or on a worker, and is changed there. The functions below run
at that place; only sums of their results are returned. A fit in one process is one part.
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
    """Examples and their dual point."""

    problem: Problem
    """Of these examples alone, with K times C."""
    state: BlockState
    K: int
    n_changes: int = 0
    picks: list[NDArray[np.int64]] = field(default_factory=list)
    """The examples of the rounds of this pass."""

    def expect(self, n_changes: int) -> None:
        """Raise `WorkerLost` if a worker died and took the last changes with it."""
        if self.n_changes != n_changes:
            raise WorkerLost(f"A part of the examples has {self.n_changes} changes; {n_changes} were expected.")

    def share(self, change: float = 0.0) -> Partial:
        """Return its share of eta, of ``sum alpha l`` and of the known gaps; ``change`` is that of ``sum alpha l``.

        Right after an update that began at the eta of all parts, the shares add up to that eta plus all changes.
        """
        state, K = self.state, self.K
        gaps = float(state.gaps.sum()) / K
        return Partial(change / K, state.eta / K, state.sets.total_cost() / K, relaxation_gap=gaps)


def make_part(
    structure: Any, loss: Any, prior: Any, C: float, K: int, first: tuple[float, Any, float], state: BlockState | None,
    n_changes: int,
) -> Part:  # fmt: skip
    """Return the part with the given state, or a new one by ``first``: C to begin with, seed and tol."""
    problem = Problem(PlacedData(structure, Threads()), loss, prior, C)
    if state is None:
        return Part(problem, block_updates.first_state(problem, *first), K)
    return Part(problem, state.copy(), K, n_changes)


def size(part: Part) -> tuple[float, int]:
    """Return the work of a pass and the number of examples."""
    structure = part.problem.structure
    return float(structure.offsets[-1]) * structure.work_per_node, part.problem.n_examples


def update(
    part: Part, n_changes: int, eta: FloatArray, number: int, n_rounds: int, sampling: str, inner: int
) -> Partial:
    """Update the examples of one round of a pass, beginning at ``eta``."""
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
    """Scale the dual point to another C, and along its ray by ``share``."""
    part.expect(n_changes)
    part.state.sets.scale(factor, share)
    part.state.C = part.K * C
    block_updates.refresh_eta(part.problem, part.state)
    block_updates.set_weights(part.problem, part.state)
    part.n_changes += 1
    return part.share()


def refresh(part: Part, n_changes: int) -> Partial:
    """Recompute eta from the active labellings: the certificate is for exactly this dual point."""
    part.expect(n_changes)
    block_updates.refresh_eta(part.problem, part.state)
    part.n_changes += 1
    return part.share()


def evaluate(part: Part, n_changes: int, eta: FloatArray) -> Partial:
    """Return the hinge losses at the weights of eta; recompute the gaps of all examples."""
    part.expect(n_changes)
    _set_eta(part, eta)
    mu = part.problem.dual_prior.mean(part.problem.structure.blocks.unpad(eta))
    hinge = block_updates.block_gaps(part.problem, part.state, mu)
    part.n_changes += 1
    loss = float(hinge @ part.problem.batch.sample_weight)
    return part.share()._replace(loss=loss, gradient=np.zeros(0))


def losses_at(part: Part, w: FloatArray) -> Partial:
    """Return the losses at given weights."""
    return Partial(part.problem.loss_and_gradient(w, gradient=False).loss)


def collect(part: Part, n_changes: int) -> BlockState:
    """Return a copy of the state."""
    part.expect(n_changes)
    return part.state.copy()


def _set_eta(part: Part, eta: FloatArray) -> None:
    """Continue from another eta, with the same active labellings."""
    part.state.eta[:] = eta
    block_updates.set_weights(part.problem, part.state)
