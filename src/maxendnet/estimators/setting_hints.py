"""Hints in error messages for unknown settings of estimators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from itertools import product
from typing import Any

from maxendnet.utils.checks import is_number
from maxendnet.utils.suggest import did_you_mean

HINTS = {
    ("L1CRF", "C"): "is 1 / lam: {estimator}(lam={inverse})",
    ("L2CRF", "C"): "is 1 / lam: {estimator}(lam={inverse})",
    ("CRF", "C"): "weights the loss against a penalty, which CRF does not have: L2CRF(lam={inverse})",
    ("CRF", "lam"): "is the weight of a penalty, which CRF does not have: L2CRF(lam={value})",
    ("M3N", "lam"): "is 1 / C: {estimator}(C={inverse})",
    ("L1M3N", "lam"): "is 1 / (2 C): {estimator}(C={half_inverse})",
    ("MaxEnDNet", "lam"): "is a parameter of the prior: {estimator}(prior=Laplace(lam={value}))",
    ("MarkovNetwork", "max_iter"): "is called max_passes: {estimator}(max_passes={value})",
    ("MarkovNetwork", "bias"): "is an option of structures: {estimator}(structure=Chain(bias={value}))",
    ("MarkovNetwork", "ends"): "is an option of structures: {estimator}(structure=Chain(ends={value}))",
    ("MarkovNetwork", "siblings"): "is an option of structures: {estimator}(structure=Tree(siblings={value}))",
    ("MarkovNetwork", "forbidden_pairs"): "is an option of structures: {estimator}(structure=Tree(forbidden={value}))",
    ("MarkovNetwork", "rest"): "is an option of structures: {estimator}(structure=Choice(rest={value}))",
}
"""Equivalents of settings of other libraries, by class (including subclasses) and setting."""


def with_hints(init: Callable[..., None]) -> Callable[..., None]:
    """Wrap an ``__init__`` so that errors for unknown settings include a hint."""

    @wraps(init)
    def __init__(self: Any, *args: Any, **settings: Any) -> None:
        try:
            init(self, *args, **settings)
        except TypeError:
            hint = hint_for(type(self), settings)
            if hint:
                raise TypeError(hint) from None
            known = type(self)._get_param_names()
            for name in settings:
                if name not in known:
                    suggestion = did_you_mean(name, known) or f" Its settings are: {', '.join(known)}."
                    raise TypeError(f"{type(self).__name__} has no setting {name!r}.{suggestion}") from None
            raise

    return __init__


def hint_for(estimator: Any, settings: Mapping[str, Any]) -> str:
    """Return the error message for a setting that has another name in maxendnet, or an empty string."""
    known = estimator._get_param_names()
    for (name, value), kind in product(settings.items(), estimator.__mro__):
        if name not in known and (kind.__name__, name) in HINTS:
            text = HINTS[kind.__name__, name].format(
                estimator=estimator.__name__, value=repr(value), inverse=_inverse(1, value),
                half_inverse=_inverse(2, value),
            )  # fmt: skip
            return f"{estimator.__name__} has no setting {name!r}; {name} {text}."
    return ""


def _inverse(factor: int, value: Any) -> str:
    """Return ``1 / (factor * value)`` for a message, as a number if possible."""
    if is_number(value) and value > 0:
        return f"{1 / (factor * value):g}"
    return f"1 / {value!r}" if factor == 1 else f"1 / ({factor} * {value!r})"
