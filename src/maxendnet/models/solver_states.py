"""States of solvers as plain JSON and arrays, and back: what `models.json_values` does for settings, and more.

A state is made of numbers, arrays, random generators and pieces, held by the records (named tuples and dataclasses) of
the solvers. Examples are not written: wherever a state refers to those of the fit it says so, and gets them back from
the fit that goes on. Beyond the tags of `models.json_values` there are ``{"record": [name, {field: value}]}``,
``{"sparse": [data, indices, indptr, shape]}``, ``{"kernel": [name, arrays]}``, ``{"placed": number}`` and
``{"problem": {...}}``.
"""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass, replace
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from maxendnet import _kernels, solvers
from maxendnet.data.truth import LabelSets
from maxendnet.losses.costs import JointCosts
from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.models.checks import ModelFileError, entry, pair
from maxendnet.models.json_values import FromPlain, ToPlain, pieces
from maxendnet.problem import Problem
from maxendnet.problem.placed import PlacedData
from maxendnet.solvers.block_frank_wolfe import DualState
from maxendnet.structures.bound.batch_structure import BatchStructure

IN_KERNELS = ("ActiveSets",)
"""Classes of the kernels whose objects are part of states."""
CHANGED = ("y", "row", "label_sets", "sample_weight")
"""What a batch may have of its own where a round takes other labels for the true ones."""
OF_PROBLEM = ("loss", "prior", "C", "linear_term")


def records() -> dict[str, type]:
    """The records that states are made of, by name: those of the modules of the solvers.

    Examples
    --------
    >>> sorted(records())[:3]
    ['BlockFrankWolfe.DualState', 'Blocks.BlockState', 'ConcaveConvex.Round']
    """
    found: dict[str, type] = {"SoftHinge": SoftHinge, "LabelSets": LabelSets, "JointCosts": JointCosts}
    homes = {kind.__module__: kind.__name__ for kind in solvers.ALL}
    homes |= {
        "maxendnet.solvers.blocks.updates": "Blocks",
        "maxendnet.solvers.base": "Solver",
        "maxendnet.solvers.certificate.dual_mixture": "DualPoint",
        "maxendnet.solvers.curvature.factor": "Factor",
        "maxendnet.solvers.subproblems.smooth_l1": "SmoothL1",
    }
    known = pieces()
    for module, home in homes.items():
        for name, kind in vars(sys.modules[module]).items():
            if isinstance(kind, type) and kind.__module__ == module and _is_record(kind) and name not in known:
                found[f"{home}.{name}"] = kind
    return found


def _is_record(kind: type) -> bool:
    return is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _names(kind: Any) -> tuple[str, ...]:
    return kind._fields if issubclass(kind, tuple) else tuple(field.name for field in fields(kind))


class StateToPlain(ToPlain):
    """Turns the state of a solver into JSON; arrays are put aside.

    Parameters
    ----------
    problem : Problem
        Of the fit; its examples are referred to and not written.

    Attributes
    ----------
    placed : list
        How the examples of other problems within the state differ from those of the fit.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem
        self.placed: list[Any] = [None]
        self._data = [problem.data]
        self._records = {kind: name for name, kind in records().items()}

    def __call__(self, value: Any, where: str) -> Any:
        kind = type(value)
        if kind is DualState:
            value = value.collected()
        if kind in self._records:
            parts = {name: self(getattr(value, name), f"{where}.{name}") for name in _names(kind)}
            return {"record": [self._records[kind], parts]}
        if isinstance(value, Problem):
            return {"problem": self._problem(value, where)}
        if isinstance(value, PlacedData):
            return {"placed": self._place(value, where)}
        if isinstance(value, sparse.csr_array):
            arrays = [self(array, where) for array in (value.data, value.indices, value.indptr)]
            return {"sparse": [*arrays, list(map(int, value.shape))]}
        for name in IN_KERNELS:
            if kind is getattr(_kernels, name):
                return {"kernel": [name, self(value.__getstate__(), where)]}
        return super().__call__(value, where)

    def _problem(self, value: Problem, where: str) -> dict[str, Any] | None:
        if value is self.problem:
            return None
        own = {name: self(getattr(value, name), f"{where}.{name}") for name in OF_PROBLEM}
        seen = value.objective_at_zero
        return own | {
            "data": self._place(value.data, where),
            "n_oracle": int(value.n_oracle),
            "at_zero": self(None if seen is None else float(seen), where),
        }

    def _place(self, data: PlacedData, where: str) -> int:
        for number, known in enumerate(self._data):
            if known is data:
                return number
        ours, other = self.problem.structure, data.structure
        same = type(ours) is type(other) and isinstance(ours, BatchStructure)
        if not same or any(
            getattr(ours, field.name) is not getattr(other, field.name)
            for field in fields(ours)
            if field.name != "batch"
        ):
            self._refuse(data, where)
        changed = {}
        for name in other.batch._fields:
            if getattr(ours.batch, name) is not getattr(other.batch, name):
                if name not in CHANGED:
                    self._refuse(data, f"{where}.{name}")
                changed[name] = self(getattr(other.batch, name), f"{where}.{name}")
        self._data.append(data)
        self.placed.append(changed)
        return len(self._data) - 1

    @staticmethod
    def _refuse(value: Any, where: str) -> NoReturn:
        raise ModelFileError(
            f"{where} is of type {type(value).__module__}.{type(value).__qualname__}, which a checkpoint cannot hold: "
            "it holds no code, and knows only the solvers and structures of maxendnet. Fit without a checkpoint, or "
            "with one of these solvers."
        )

    def _piece(self, value: Any, where: str) -> list[Any]:
        if pieces().get(type(value).__name__) is not type(value):
            self._refuse(value, where)
        return super()._piece(value, where)


class StateFromPlain(FromPlain):
    """Undoes `StateToPlain`.

    Parameters
    ----------
    arrays : dict of str to ndarray
    placed : list
    problem : Problem
        Of the fit that goes on.
    """

    def __init__(self, arrays: dict[str, np.ndarray], placed: list[Any], problem: Problem) -> None:
        super().__init__(arrays)
        self.problem = problem
        self._records = records()
        self._makers |= {
            "record": self._record,
            "sparse": self._sparse,
            "kernel": self._kernel,
            "placed": lambda number: self._data[number],
            "problem": self._problem,
        }
        self._data: list[PlacedData] = [problem.data]
        for changed in placed[1:]:
            new = {name: self(entry(changed, name, "other examples")) for name in changed if name in CHANGED}
            structure = replace(problem.structure, batch=problem.batch._replace(**new))
            self._data.append(PlacedData(structure, problem.backend))

    def _record(self, content: Any) -> Any:
        name, parts = pair(content, "a record")
        if name not in self._records:
            raise ModelFileError(f"the unknown record {name!r}")
        kind = self._records[name]
        if set(parts) != set(_names(kind)):
            raise ModelFileError(f"a {name} with other parts than it has")
        return kind(**{key: self(part) for key, part in parts.items()})

    def _sparse(self, content: Any) -> Any:
        data, indices, indptr, shape = content
        found = sparse.csr_array((self(data), self(indices), self(indptr)), shape=tuple(shape))
        found.check_format(full_check=True)
        return found

    def _kernel(self, content: Any) -> Any:
        name, state = content
        if name not in IN_KERNELS:
            raise ModelFileError(f"the unknown object {name!r} of the kernels")
        kind = getattr(_kernels, name)
        found = kind.__new__(kind)
        found.__setstate__(self(state))
        return found

    def _problem(self, content: Any) -> Problem:
        if content is None:
            return self.problem
        part = lambda key: entry(content, key, "a problem")  # noqa: E731
        found = replace(
            self.problem, data=self._data[part("data")], **{name: self(part(name)) for name in OF_PROBLEM}
        )  # fmt: skip
        found.n_oracle = int(part("n_oracle"))
        if part("at_zero") is not None:
            found.objective_at_zero = self(part("at_zero"))
        return found
