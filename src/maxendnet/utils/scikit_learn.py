"""Base classes and functions of scikit-learn, with the type annotations that scikit-learn does not have.

Type checkers would treat every subclass of an unannotated class as unknown.
"""

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    T = TypeVar("T")

    class BaseEstimator:
        """Base class of estimators, with parameters that can be read and set by name."""

        @classmethod
        def _get_param_names(cls) -> list[str]: ...
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def __sklearn_tags__(self) -> Any: ...
        def __getstate__(self) -> dict[str, Any]: ...
        def __setstate__(self, state: dict[str, Any]) -> None: ...

    class ClassifierMixin:
        """Mixin class of classifiers."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

    class TransformerMixin:
        """Mixin class of transformers."""

        def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any: ...
        def set_output(self, *, transform: str | None = None) -> Self: ...

    class MetaEstimatorMixin:
        """Mixin class of estimators that contain other estimators."""

    def clone(estimator: T, *, safe: bool = True) -> T:
        """Return an unfitted estimator with the same parameters."""
        ...

    def available_if(check: Callable[[Any], Any]) -> Callable[[T], T]:
        """Return a decorator for methods that exist only if ``check(self)`` is true."""
        ...

else:
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, TransformerMixin, clone
    from sklearn.utils.metaestimators import available_if

__all__ = ["BaseEstimator", "ClassifierMixin", "MetaEstimatorMixin", "TransformerMixin", "available_if", "clone"]
