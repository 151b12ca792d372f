"""Conversion of settings, labels and pieces to JSON and arrays, and back.

Reading creates only objects of the classes in a fixed table.

Values of types that JSON does not support are objects with one key, the name of the type:
``{"float": "nan"}``, ``{"tuple": [...]}``, ``{"dict": [[key, value], ...]}``,
``{"bytes": "6869"}``, ``{"scalar": ["int32", 3]}``, ``{"array": "name"}``
(a tensor of the file), ``{"strings": [...]}`` and ``{"objects": [...]}`` (numpy arrays of strings and objects),
``{"piece": ["Laplace", {"lam": 1.0}]}`` and ``{"random": ["PCG64", {...}]}``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from maxendnet import losses, priors, solvers, structures
from maxendnet.models.checks import ModelFileError, pair, random_state, truth
from maxendnet.piece import Piece
from maxendnet.structures import rules


def pieces() -> dict[str, Any]:
    """Return the classes that a file may contain, by name."""
    protocols = ("Prior", "ExactPrior")
    classes = [getattr(priors, name) for name in priors.__all__ if name not in protocols]
    classes += [getattr(losses, name) for name in losses.__all__]
    return {cls.__name__: cls for cls in (*classes, *solvers.ALL, *structures.ALL, *rules.ALL)}


NUMBERS = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)  # dtypes that both safetensors and numpy support
GENERATORS = {name: getattr(np.random, name) for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")}

# Python does not parse integers of more than 4,300 digits
LARGEST_INTEGER = 10**4000

ONLINE = "the online version of ExponentiatedGradient was removed; ExponentiatedGradient() is the batch version"
REMOVED = {
    "ActiveSetNewton": "the solver ActiveSetNewton was removed; use OWLQN()",
    "SDCA": "the solver SDCA was removed; use PotentialAscent(), or LBFGS() on Dask and with edge features",
    "ExponentiatedGradient.online": ONLINE,
    "ExponentiatedGradient.OwnState": ONLINE,
}
"""Messages for removed solvers, by the names in files: a class, its setting, or the record of its state."""
DROPPED = frozenset(
    ["BlockFrankWolfe.at_once", "BlockFrankWolfe.ramp", "PotentialAscent.at_once", "ProximalPoint.inner"]
)
"""Removed settings, which are ignored because they did not affect the optimum."""


class RemovedSolverError(ModelFileError):
    """A file refers to a solver that was removed."""


def check_removed(*names: str) -> None:
    """Raise `RemovedSolverError` if a name belongs to a removed solver.

    Examples
    --------
    >>> check_removed("LBFGS", "SDCA")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    maxendnet.models.json_values.RemovedSolverError: the solver SDCA was removed; use PotentialAscent()...
    """
    for name in names:
        if name in REMOVED:
            raise RemovedSolverError(REMOVED[name])


class ToPlain:
    """Converts values to JSON, and collects arrays by name.

    Attributes
    ----------
    arrays : dict of str to ndarray
        The collected arrays, without duplicates.

    Examples
    --------
    >>> plain = ToPlain()
    >>> plain(("a", 1, float("nan")), "the label")
    {'tuple': ['a', 1, {'float': 'nan'}]}
    >>> plain(priors.Gaussian(np.ones(2)), "prior"), list(plain.arrays)
    ({'piece': ['Gaussian', {'variance': {'array': 'prior__variance'}, 'mean': 0.0}]}, ['prior__variance'])
    """

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._originals: list[tuple[np.ndarray, str]] = []

    def __call__(self, value: Any, where: str) -> Any:
        """Return the JSON form of a value. ``where`` is its name in messages, and the prefix of its array names."""
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int and abs(value) < LARGEST_INTEGER:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if kind is bytes:
            return {"bytes": value.hex()}
        if kind is list:
            return [self(item, where) for item in value]
        if kind is tuple:
            return {"tuple": [self(item, where) for item in value]}
        if kind is dict:
            return {"dict": [[self(key, where), self(item, where)] for key, item in value.items()]}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, np.generic):
            return {"scalar": self._scalar(value, where)}
        if isinstance(value, (Piece, rules.Rule)):
            return {"piece": self._piece(value, where)}
        if isinstance(value, (np.random.Generator, np.random.RandomState)):
            return {"random": self._random(value, where)}
        self._refuse(value, where)

    @staticmethod
    def _refuse(value: Any, where: str) -> NoReturn:
        shown = repr(value)
        raise ModelFileError(
            f"{where} is {shown if len(shown) <= 80 else shown[:77] + '...'} of type {type(value).__name__}, which a "
            "model file cannot store; use strings, bytes, numbers, None, tuples of these, or numpy arrays of numbers."
        )

    def _array(self, value: np.ndarray, where: str) -> dict[str, Any]:
        if value.dtype.kind == "U":
            return {"strings": value.tolist()} if value.ndim == 1 else self._refuse(value, where)
        if value.dtype.kind == "O" and value.ndim == 1:
            return {"objects": [self(item, f"{where}[{k}]") for k, item in enumerate(value)]}
        if value.dtype.name not in NUMBERS:
            self._refuse(value, where)
        for original, name in self._originals:
            if original is value or _same_memory(original, value):
                return {"array": name}
        name = where
        while name in self.arrays:
            name += "_"
        # safetensors requires contiguous arrays in native byte order
        self.arrays[name] = np.asarray(value, dtype=value.dtype.newbyteorder("="), order="C")
        self._originals.append((value, name))
        return {"array": name}

    def _scalar(self, value: np.generic, where: str) -> list[Any]:
        if isinstance(value, np.str_):
            return ["str", str(value)]
        if isinstance(value, np.bytes_):
            return ["bytes", self(bytes(value), where)]
        if value.dtype.name not in NUMBERS:
            self._refuse(value, where)
        return [value.dtype.name, self(value.item(), where)]

    def _piece(self, value: Any, where: str) -> list[Any]:
        name, known = type(value).__name__, pieces()
        if known.get(name) is not type(value):
            raise ModelFileError(
                f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which is not a class of maxendnet; "
                f"a model file holds no code, so it can contain only {', '.join(sorted(known))}. Save the weights "
                "(coef_, transitions_, ...) with numpy.savez, or add the class to maxendnet (docs/extend)."
            )
        return [name, {key: self(item, f"{where}__{key}") for key, item in value.get_params(deep=False).items()}]

    def _random(self, value: Any, where: str) -> list[Any]:
        legacy = isinstance(value, np.random.RandomState)
        state = value.get_state(legacy=False) if legacy else value.bit_generator.state
        name = state["bit_generator"]
        if name not in GENERATORS:
            self._refuse(value, where)
        return [name, legacy, self._state(state, where)]

    def _state(self, state: Any, where: str) -> Any:
        if isinstance(state, dict):
            return {key: self._state(item, where) for key, item in state.items()}
        return self(state, where)


def _same_memory(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are views of the same numbers."""
    same_form = a.dtype == b.dtype and a.shape == b.shape and a.strides == b.strides
    return same_form and a.size > 0 and a.ctypes.data == b.ctypes.data


class FromPlain:
    """Inverse of `ToPlain`. Input that `ToPlain` cannot produce raises `ModelFileError`.

    Parameters
    ----------
    arrays : dict of str to ndarray
    """

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays
        self._makers: dict[str, Callable[[Any], Any]] = {
            "float": self._float,
            "tuple": lambda items: tuple(map(self, items)),
            "dict": self._dict,
            "bytes": bytes.fromhex,
            "scalar": self._scalar,
            "array": self.array,
            "strings": lambda items: np.array(self._texts(items), dtype=np.str_),
            "objects": lambda items: np.fromiter(map(self, items), dtype=object, count=len(items)),
            "piece": self._piece,
            "random": self._random,
        }

    def __call__(self, plain: Any) -> Any:
        if plain is None or isinstance(plain, (bool, str, int, float)):
            return plain
        if isinstance(plain, list):
            return list(map(self, plain))
        if len(plain) != 1:
            raise ModelFileError(f"a value has the keys {sorted(plain)[:10]}, where one key is expected")
        ((tag, content),) = plain.items()
        if tag not in self._makers:
            raise ModelFileError(f"a value of unknown type {tag!r}")
        return self._makers[tag](content)

    def array(self, name: str) -> np.ndarray:
        """Return the tensor with this name."""
        if name not in self.arrays:
            raise ModelFileError(f"no tensor {name!r}")
        return self.arrays[name]

    @staticmethod
    def _float(text: Any) -> float:
        known = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
        if not (isinstance(text, str) and text in known):
            raise ModelFileError(f"a float {text!r}")
        return known[text]

    def _dict(self, items: Any) -> dict[Any, Any]:
        if not (isinstance(items, list) and all(isinstance(item, list) and len(item) == 2 for item in items)):
            raise ModelFileError("a dict that is not a list of keys with their values")
        mapping = {self(key): self(item) for key, item in items}
        if len(mapping) != len(items):
            raise ModelFileError("a dict with a duplicate key")
        return mapping

    @staticmethod
    def _texts(items: Any) -> list[str]:
        if not (isinstance(items, list) and all(isinstance(item, str) for item in items)):
            raise ModelFileError("a list of strings with another value")
        return items

    def _scalar(self, content: Any) -> Any:
        name, value = content
        if name == "str":
            return np.str_(self._texts([value])[0])
        if name == "bytes":
            return np.bytes_(self(value))
        if name not in NUMBERS:
            raise ModelFileError(f"a number of unknown type {name!r}")
        return np.dtype(name).type(self(value))

    def _piece(self, content: Any) -> Any:
        name, parameters = pair(content, "a piece")
        check_removed(name, *(f"{name}.{key}" for key in parameters))
        known = pieces()
        if name not in known:
            raise ModelFileError(f"the unknown piece {name!r}")
        current = {key: value for key, value in parameters.items() if f"{name}.{key}" not in DROPPED}
        return make(known[name], {key: self(value) for key, value in current.items()})

    def _random(self, content: Any) -> Any:
        if not (isinstance(content, list) and len(content) == 3):
            raise ModelFileError("a random generator that is not a name, a bool and a state")
        name, legacy, plain = content
        if not (isinstance(name, str) and name in GENERATORS):
            raise ModelFileError(f"the unknown random generator {name!r}")
        generator = GENERATORS[name]()
        state = self._state(plain)
        if truth(legacy, "legacy of a random generator"):
            result = np.random.RandomState(generator)
            random_state(state, result.get_state(legacy=False))
            result.set_state(state)
            return result
        random_state(state, generator.state)
        generator.state = state
        return np.random.Generator(generator)

    def _state(self, plain: Any) -> Any:
        if isinstance(plain, dict) and not plain.keys() & self._makers.keys():
            return {key: self._state(item) for key, item in plain.items()}
        return self(plain)


def make(cls: type, parameters: dict[str, Any]) -> Any:
    """Create an estimator or piece with these settings, and defaults for missing ones."""
    unknown = parameters.keys() - set(cls._get_param_names())  # type: ignore[attr-defined]
    if unknown:
        raise ModelFileError(f"the unknown setting {sorted(unknown)[0]!r} of {cls.__name__}")
    return cls(**parameters)
