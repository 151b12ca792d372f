"""What bounds of the error on new examples are reported in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


@dataclass(frozen=True)
class BoundRow:
    """One bound.

    Parameters
    ----------
    name : str
    loss : {"share", "0/1"}
    bound : float
        With probability at least ``1 - delta`` the risk is at most this; 1 and above say nothing.
    empirical : float
        The risk seen on the examples (of a Gibbs predictor: the mean over draws).
    n_examples : int
        How many examples the bound was computed on.
    kl : float
        KL divergence from posterior to prior; nan where there is none.
    scale : float
        How far the posterior is from its prior, 1 for the fitted one; nan where nothing was chosen.
    certified : bool
        False for an illustration whose assumptions do not hold.
    statement : str
        Whose risk, under which assumptions.
    predictor : estimator, Posterior or VariationalPosterior
        The one the bound is for: its ``predict``, or the Gibbs predictor that draws weights by its ``sample``.
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
    """Bounds of the error on new examples; prints as a table.

    Parameters
    ----------
    rows : tuple of BoundRow
    delta : float
        Of every row by itself. To rely on k rows at once, ask for ``delta / k``.
    """

    rows: tuple[BoundRow, ...]
    delta: float

    def __iter__(self) -> Iterator[BoundRow]:
        return iter(self.rows)

    def row(self, name: str, loss: str) -> BoundRow:
        """The row of a name and a loss."""
        for row in self.rows:
            if (row.name, row.loss) == (name, loss):
                return row
        known = ", ".join(f"({row.name!r}, {row.loss!r})" for row in self.rows)
        raise KeyError(f"no row ({name!r}, {loss!r}); there are {known}")

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and texts, for JSON or a data frame."""
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
        left = [0, 1]  # names and losses to the left, numbers to the right
        lines = [
            "  ".join(c.ljust(w) if k in left else c.rjust(w) for k, (c, w) in enumerate(zip(line, widths))).rstrip()
            for line in (head, *cells)
        ]
        lines.append(f"Each row by itself holds with probability at least {1 - self.delta:g} over the examples.")
        for name, statement in dict.fromkeys((row.name, row.statement) for row in self.rows):
            lines.append(f"- {name}: {statement}")
        if not all(row.certified for row in self.rows):
            lines.append("* an illustration: what it assumes does not hold here.")
        return "\n".join(lines)
