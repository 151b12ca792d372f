"""Conversion of solver states to JSON and arrays, and back.

A state consists of numbers, arrays, random generators and pieces in records (named tuples and dataclasses) of the
solvers. Examples are not written: the file only refers to them, and the fit that resumes provides them. Tags in
addition to those of `models.json_values` are ``{"record": [name, {field: value}]}``,
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
from maxendnet.models.checks import ModelFileError, count, entry, number, pair
from maxendnet.models.json_values import FromPlain, ToPlain, pieces
from maxendnet.models.state_checks import check_placed, check_problem
from maxendnet.problem import Problem
from maxendnet.problem.placed import PlacedData
from maxendnet.solvers.block_frank_wolfe import DualState
from maxendnet.structures.bound.batch_structure import BatchStructure

IN_KERNELS = ("ActiveSets",)
"""Kernel classes whose objects are part of solver states."""
CHANGED = ("y", "row", "label_sets", "sample_weight")
"""Batch fields that differ between rounds with different target labels."""
OF_PROBLEM = ("loss", "prior", "C", "linear_term")


def records() -> dict[str, type]:
    """Return the record classes of solver states by name. They are defined in the modules of the solvers.

    Examples
    --------
    >>> sorted(records())[:3]
    ['BlockFrankWolfe.DualState', 'Blocks.BlockState', 'ConcaveConvex.Round']
    """
    named: dict[str, type] = {"SoftHinge": SoftHinge, "LabelSets": LabelSets, "JointCosts": JointCosts}
    homes = {kind.__module__: kind.__name__ for kind in solvers.ALL}
    homes |= {
        "maxendnet.solvers.blocks.updates": "Blocks",
        "maxendnet.solvers.base": "Solver",
        "maxendnet.solvers.certificate.dual_mixture": "DualPoint",
        "maxendnet.solvers.curvature.factor": "Factor",
        "maxendnet.solvers.subproblems.cuts": "Cuts",
        "maxendnet.solvers.subproblems.smooth_l1": "SmoothL1",
    }
    known = pieces()
    for module, home in homes.items():
        for name, kind in vars(sys.modules[module]).items():
            if isinstance(kind, type) and kind.__module__ == module and _is_record(kind) and name not in known:
                named[f"{home}.{name}"] = kind
    return named


def _is_record(kind: type) -> bool:
    return is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _names(kind: Any) -> tuple[str, ...]:
    return kind._fields if issubclass(kind, tuple) else tuple(field.name for field in fields(kind))


class StateToPlain(ToPlain):
    """Converts solver states to JSON, and collects arrays by name.

    Parameters
    ----------
    problem : Problem
        Problem of the fit. Its examples are not written, only referred to.

    Attributes
    ----------
    placed : list
        Changed fields of the examples of other problems within the state.
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
        fields_of_problem = {name: self(getattr(value, name), f"{where}.{name}") for name in OF_PROBLEM}
        at_zero = value.objective_at_zero
        return fields_of_problem | {
            "data": self._place(value.data, where),
            "n_oracle": int(value.n_oracle),
            "at_zero": self(None if at_zero is None else float(at_zero), where),
        }

    def _place(self, data: PlacedData, where: str) -> int:
        """Return the index of the examples in ``placed``, and add them if they are new."""
        for k, known in enumerate(self._data):
            if known is data:
                return k
        original, changed = self.problem.structure, data.structure
        same_type = type(original) is type(changed) and isinstance(original, BatchStructure)
        if not same_type or any(
            getattr(original, field.name) is not getattr(changed, field.name)
            for field in fields(original)
            if field.name != "batch"
        ):
            self._refuse(data, where)
        changes = {}
        for name in changed.batch._fields:
            if getattr(original.batch, name) is not getattr(changed.batch, name):
                if name not in CHANGED:
                    self._refuse(data, f"{where}.{name}")
                changes[name] = self(getattr(changed.batch, name), f"{where}.{name}")
        self._data.append(data)
        self.placed.append(changes)
        return len(self._data) - 1

    @staticmethod
    def _refuse(value: Any, where: str) -> NoReturn:
        raise ModelFileError(
            f"{where} is of type {type(value).__module__}.{type(value).__qualname__}, which a checkpoint cannot store: "
            "it contains no code, and supports only solvers and structures of maxendnet. Fit without a checkpoint, or "
            "with one of these solvers."
        )

    def _piece(self, value: Any, where: str) -> list[Any]:
        if pieces().get(type(value).__name__) is not type(value):
            self._refuse(value, where)
        return super()._piece(value, where)


class StateFromPlain(FromPlain):
    """Inverse of `StateToPlain`.

    Parameters
    ----------
    arrays : dict of str to ndarray
    placed : list
    problem : Problem
        Problem of the fit that resumes.
    """

    def __init__(self, arrays: dict[str, np.ndarray], placed: list[Any], problem: Problem) -> None:
        super().__init__(arrays)
        self.problem = problem
        self._records = records()
        self._makers |= {
            "record": self._record,
            "sparse": self._sparse,
            "kernel": self._kernel,
            "placed": self._placed,
            "problem": self._problem,
        }
        self._data: list[PlacedData] = [problem.data]
        for changed in placed[1:]:
            new = {name: self(entry(changed, name, "other examples")) for name in changed if name in CHANGED}
            check_placed(new, problem)
            structure = replace(problem.structure, batch=problem.batch._replace(**new))
            self._data.append(PlacedData(structure, problem.backend))

    def _placed(self, number: Any) -> PlacedData:
        k = count(number, "the number of placed examples")
        if k >= len(self._data):
            raise ModelFileError(f"placed examples {number}, but there are only {len(self._data)}")
        return self._data[k]

    def _record(self, content: Any) -> Any:
        name, parts = pair(content, "a record")
        if name not in self._records:
            raise ModelFileError(f"the unknown record {name!r}")
        kind = self._records[name]
        if set(parts) != set(_names(kind)):
            raise ModelFileError(f"a {name} with the fields {sorted(parts)}")
        return kind(**{key: self(part) for key, part in parts.items()})

    def _sparse(self, content: Any) -> Any:
        *arrays, shape = content
        data, indices, indptr = map(self, arrays)
        n_rows, _ = (count(size, "a size of a sparse matrix") for size in shape)
        if len(indptr) != n_rows + 1 or indptr[0] != 0 or indptr[-1] != len(indices) or np.any(np.diff(indptr) < 0):
            raise ModelFileError(f"the offsets of a sparse matrix do not describe {n_rows} rows")
        matrix = sparse.csr_array((data, indices, indptr), shape=tuple(shape))
        matrix.check_format(full_check=True)
        return matrix

    def _kernel(self, content: Any) -> Any:
        name, state = content
        if name not in IN_KERNELS:
            raise ModelFileError(f"the unknown object {name!r} of the kernels")
        kind = getattr(_kernels, name)
        instance = kind.__new__(kind)
        instance.__setstate__(self(state))
        return instance

    def _problem(self, content: Any) -> Problem:
        if content is None:
            return self.problem

        def part(key: str) -> Any:
            return entry(content, key, "a problem")

        problem = replace(
            self.problem, data=self._placed(part("data")), **{name: self(part(name)) for name in OF_PROBLEM}
        )  # fmt: skip
        check_problem(problem, self.problem)
        problem.n_oracle = count(part("n_oracle"), "n_oracle")
        if part("at_zero") is not None:
            problem.objective_at_zero = number(self(part("at_zero")), "at_zero")
        return problem
