"""Checkpoints: files from which an interrupted fit resumes.

A checkpoint (see `maxendnet.models.container`) stores the solver state, the number of passes and the trace, as they are
between two passes. It contains numbers and names, never code, and identifies the examples by their fingerprint. Its
checksum detects damage, not forgery, so the content is checked as that of a model file (`models.state_checks`): types,
shapes, ranges, and the bounds that follow from the examples. A forged checkpoint can therefore not crash the process.
It can still contain another history, so the certificate of a resumed fit is only as good as the writer of the file.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from maxendnet import _kernels
from maxendnet.models.checks import ModelFileError, entry
from maxendnet.models.container import Kind, read_sealed, write_sealed
from maxendnet.models.json_values import RemovedSolverError, check_removed
from maxendnet.models.solver_states import StateFromPlain, StateToPlain
from maxendnet.models.state_checks import check_position, check_state
from maxendnet.problem import Problem
from maxendnet.problem.placed import add_to
from maxendnet.solvers.base import Position, Solver, TraceRow
from maxendnet.utils.warn import warn_caller
from maxendnet.version import __version__

MAX_SHARE_OF_TIME = 0.05
"""Maximum fraction of the fit time that is spent on writing checkpoints."""


class CheckpointError(ValueError):
    """A file is damaged or not a checkpoint of this fit, or a state cannot be written."""

    __module__ = "maxendnet"  # the public module


FORMAT = 1
KIND = Kind(
    b"\x89MEDC\r\n\x1a", (FORMAT,), "checkpoint", "fit(..., checkpoint=path)", "remove it and start again",
    CheckpointError,
)  # fmt: skip


class Checkpoint:
    """Writer and reader of the checkpoints of a fit.

    Parameters
    ----------
    path : str or path-like
    every : float
        Minimum number of seconds between checkpoints. The first one is written before the first pass, so that an
        invalid path raises an error immediately.
    random_state : Any
        Setting of the estimator. A fit resumes only with the same integer.
    clock : callable
        Returns the time in seconds.

    Examples
    --------
    >>> import os, tempfile
    >>> from maxendnet import M3N
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "letters.checkpoint")
    ...     model = M3N(random_state=0).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]], checkpoint=path)
    ...     os.path.exists(path)  # removed at the end of the fit
    False
    """

    clock: Callable[[], float]
    every: float
    path: str

    def __init__(
        self, path: str | os.PathLike[str], every: float = 60.0, random_state: Any = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.path, self.every, self.clock = os.fspath(path), every, clock
        self.seed: int | None = int(random_state) if isinstance(random_state, (int, np.integer)) else None
        self._options: dict[str, Any] = {}
        self._due = -np.inf
        self._exists = False
        """Whether the file contains a checkpoint of this fit."""

    def resume(self, solver: Solver, problem: Problem, tol: float) -> Position | None:
        """Return the position in the file, or None if there is no file."""
        self._options = self._describe(solver, problem, tol)
        if not os.path.exists(self.path):
            return None
        header, arrays = read_sealed(self.path, KIND)
        try:
            self._check_solver(header)
            self._compare(entry(header, "of", "the header"))
            value = StateFromPlain(arrays, entry(header, "placed", "the header"), problem)

            def part(key: str) -> Any:
                return value(entry(header, key, "the header"))

            state, seconds, n_oracle, at_zero = part("state"), part("seconds"), part("n_oracle"), part("at_zero")
            rows = [TraceRow(*row) for row in part("trace")]
            n_pass = part("n_pass")
            check_position(n_pass, seconds, n_oracle, rows, problem)
            check_state(state, solver, problem, n_pass, tol, at_zero)
        except CheckpointError:
            raise
        except Exception as error:  # the checksum is right, so another program or version wrote this content
            raise CheckpointError(
                f"{self.path} is undamaged, but this version of maxendnet cannot read it "
                f"({type(error).__name__}: {error}); remove it and start again."
            ) from error
        if at_zero is not None:
            problem.objective_at_zero = at_zero
        self._due, self._exists = self.clock() + self.every, True
        return Position(state, n_pass, rows, seconds, n_oracle)

    def offer(self, position: Position, problem: Problem, last: bool = False) -> None:
        """Write the position if a checkpoint is due, or if it is the last one.

        If the file cannot be written, the first checkpoint raises ``OSError``. Later ones warn and leave the previous
        checkpoint as it was, so that a full disk does not end a long fit.
        """
        if not last and self.clock() < self._due:
            return
        began = self.clock()
        plain = StateToPlain(problem)
        at_zero = problem.objective_at_zero
        try:
            header = {
                "format": FORMAT,
                "of": self._options,
                "state": plain(position.state, "state"),
                "n_pass": position.n_pass,
                "trace": plain([list(row) for row in position.trace], "trace"),
                "seconds": position.seconds,
                "n_oracle": int(position.n_oracle),
                "at_zero": plain(None if at_zero is None else float(at_zero), "at_zero"),
                "placed": plain.placed,
            }
        except ModelFileError as error:
            raise CheckpointError(str(error)) from error
        try:
            write_sealed(self.path, KIND, header, plain.arrays)
            self._exists = True
        except OSError as error:
            if not self._exists:
                raise
            warn_caller(
                f"The checkpoint after pass {position.n_pass} could not be written ({error}). The fit continues, and "
                f"{self.path} still contains the previous checkpoint. Free space on the disk, or use another path."
            )
        now = self.clock()
        self._due = now + max(self.every, (now - began) / MAX_SHARE_OF_TIME)

    def end(self, reason: str) -> None:
        """Remove the file at the end of a fit, unless it stopped at ``max_passes``."""
        if reason != "max_passes":
            with suppress(FileNotFoundError):
                os.unlink(self.path)

    def _describe(self, solver: Solver, problem: Problem, tol: float) -> dict[str, Any]:
        """Return the options that must be equal for a fit to resume, by name.

        Each is a pair: a text for messages, and a digest.
        """
        options = {
            "the version of maxendnet": __version__,
            "the level of the kernels": _kernels.level(),
            "the examples, their labels and weights, or the structure": (problem.data.fingerprint,),
            "the loss": (problem.loss.described, problem.cost, problem.linear_term),
            "the prior": problem.prior,
            "C": float(problem.C),
            "the solver": solver,
            "tol": float(tol),
            "random_state": self.seed,
        }
        return {name: [_shown(value), _digest(value)] for name, value in options.items()}

    def _check_solver(self, header: dict[str, Any]) -> None:
        """Raise `CheckpointError` if the solver of the file was removed."""
        shown, _ = entry(entry(header, "of", "the header"), "the solver", "the fit")
        state = entry(header, "state", "the header")
        record = state["record"][0] if isinstance(state, dict) and "record" in state else ""
        try:
            check_removed(*re.findall(r"\w+", shown), record)
        except RemovedSolverError as error:
            raise CheckpointError(
                f"{self.path} is a checkpoint of an earlier version of maxendnet: {error}. Remove the file, or use "
                "another path, to start again."
            ) from None

    def _compare(self, written: Any) -> None:
        """Raise `CheckpointError` if the file belongs to a fit with other options."""
        for name, (shown, digest) in self._options.items():
            before, digest_before = entry(written, name, "the fit")
            if digest_before == digest:
                continue
            change = f"{name} changed" + (f" from {before} to {shown}" if before != shown else "")
            raise CheckpointError(
                f"{self.path} is a checkpoint of another fit: {change}. Use the same settings and data to resume. To "
                "start again, use another path, or remove the file."
            )


def _shown(value: Any) -> str:
    """Return a value as text for messages, or an empty string for tuples and long texts."""
    shown = "" if isinstance(value, tuple) else repr(value)
    return "" if "\n" in shown or len(shown) > 100 else shown


def _digest(value: Any) -> str:
    digest = hashlib.blake2b(type(value).__qualname__.encode(), digest_size=16)
    add_to(digest, value)
    return digest.hexdigest()
