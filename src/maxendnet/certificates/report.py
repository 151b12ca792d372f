"""Reports of bounds on the error on new examples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


@dataclass(frozen=True)
class BoundRow:
    """Bound on a risk.

    Parameters
    ----------
    name : str
    loss : {"share", "0/1"}
    bound : float
        The risk is at most this with probability at least ``1 - delta``; values of 1 and above are vacuous.
    empirical : float
        Empirical risk on the examples (for a Gibbs predictor, the mean over draws).
    n_examples : int
        Number of examples that the bound was computed on.
    kl : float
        KL divergence from the posterior to the prior; nan for predictors without a posterior.
    scale : float
        Distance of the posterior from its prior, 1 for the fitted posterior; nan for predictors without a posterior.
    certified : bool
        Whether the assumptions of the bound hold; False for an illustration.
    statement : str
        Describes the predictor whose risk is bounded, and the assumptions.
    predictor : estimator, Posterior or VariationalPosterior
        Predictor whose risk is bounded: the ``predict`` of an estimator, or the Gibbs predictor that draws weights from
        a posterior.
    """

    name: str
    loss: str
    bound: float
    empirical: float
    n_examples: int
    kl: float = float("nan")
    scale: float = float("nan")
    certified: bool = True
    statement: str = ""
    predictor: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class BoundReport:
    """Bounds on the error on new examples, printed as a table.

    Parameters
    ----------
    rows : tuple of BoundRow
    delta : float
        Probability that a single row fails. For k rows to hold simultaneously, use ``delta / k``.
    """

    rows: tuple[BoundRow, ...]
    delta: float

    def __iter__(self) -> Iterator[BoundRow]:
        return iter(self.rows)

    def row(self, name: str, loss: str) -> BoundRow:
        """Return the row with this name and loss."""
        for row in self.rows:
            if (row.name, row.loss) == (name, loss):
                return row
        known = ", ".join(f"({row.name!r}, {row.loss!r})" for row in self.rows)
        raise KeyError(f"no row ({name!r}, {loss!r}); the rows are {known}")

    def to_dict(self) -> dict[str, Any]:
        """Return all rows as plain numbers and strings, for JSON or a data frame."""
        names = [f.name for f in fields(BoundRow) if f.name != "predictor"]
        return {"delta": self.delta, "rows": [{name: getattr(row, name) for name in names} for row in self.rows]}

    def __str__(self) -> str:
        head = ("bound", "loss", "at most", "seen", "KL", "scale", "examples")
        cells = [
            (row.name + ("" if row.certified else " *"), row.loss, f"{row.bound:.4f}", f"{row.empirical:.4f}",
             "-" if np.isnan(row.kl) else f"{row.kl:.1f}", "-" if np.isnan(row.scale) else f"{row.scale:g}",
             str(row.n_examples))
            for row in self.rows
        ]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(head, *cells)]
        left = [0, 1]  # names and losses are left-aligned, numbers right-aligned
        lines = [
            "  ".join(c.ljust(w) if k in left else c.rjust(w) for k, (c, w) in enumerate(zip(line, widths))).rstrip()
            for line in (head, *cells)
        ]
        lines.append(f"Each single row holds with probability at least {1 - self.delta:g} over the examples.")
        for name, statement in dict.fromkeys((row.name, row.statement) for row in self.rows):
            lines.append(f"- {name}: {statement}")
        if not all(row.certified for row in self.rows):
            lines.append("* an illustration: its assumptions do not hold here.")
        return "\n".join(lines)
