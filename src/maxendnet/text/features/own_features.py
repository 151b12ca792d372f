"""Features from functions, alone or beside a template, as `Examples`.

A function gets one sentence: a list of tokens, or of tuples if there are several columns. It returns the features of
its tokens in any form that estimators accept: a list of feature dicts or of lists of names, an array, or a sparse
matrix with a row per token. Column k of an array becomes the feature ``name[k]``, where ``name`` is the name of the
function. So all features have names, and equal names are one feature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from maxendnet.data.examples import Examples
from maxendnet.data.feature_dicts import FeatureNames
from maxendnet.data.labels import read_labels
from maxendnet.data.node_features import read_node_features
from maxendnet.data.ragged import csr
from maxendnet.text.features.token_features import TokenFeatures
from maxendnet.text.reading.columns import Columns
from maxendnet.text.reading.errors import TextError
from maxendnet.utils.scikit_learn import BaseEstimator

FloatArray = NDArray[np.float64]
IntArray = NDArray[Any]
Function = Callable[[list[Any]], Any]


class FunctionError(TextError):
    """A tagger is loaded without its feature functions, or with others."""


def name_of(function: Any) -> str:
    """Return the name of a function, or of the class of another callable.

    Examples
    --------
    >>> name_of(len), name_of(FeatureNames(["a"]))
    ('len', 'FeatureNames')
    """
    return str(getattr(function, "__name__", type(function).__name__))


@dataclass(repr=False, eq=False)
class OwnFeatures(BaseEstimator):
    """Transformer from sentences to `Examples`, with features of functions.

    Parameters
    ----------
    parts : callable, or list of callables and templates
        Functions from a sentence to the features of its tokens; see `maxendnet.text.features.own_features`. A list may
        also contain one template: `TokenFeatures`, or a string as for `TokenFeatures`.

    Attributes
    ----------
    feature_names_ : FeatureNames
    template_ : Template or None
        The template among the parts.
    n_columns_in_ : int
        Number of columns of the sentences.
    n_numbers_ : dict of str to int
        Number of columns of each function that returns arrays.

    Examples
    --------
    >>> def lengths(sentence):
    ...     return np.array([[len(word)] for word in sentence])
    >>> features = OwnFeatures(["U0=%x[0,0]", lengths])
    >>> examples = features.fit_transform([["the", "dogs"], ["dogs"]])
    >>> features.feature_names_, examples.X.toarray().tolist()
    (('U0=the', 'U0=dogs', 'lengths[0]'), [[1.0, 0.0, 3.0], [0.0, 1.0, 4.0], [0.0, 1.0, 4.0]])
    """

    parts: Any

    n_hashed = None

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        """Split the parts into functions and a template."""
        parts = list(self.parts) if isinstance(self.parts, (list, tuple)) else [self.parts]
        templates = [TokenFeatures(part) if isinstance(part, str) else part for part in parts if not callable(part)]
        self.functions_: dict[str, Function] = {name_of(part): part for part in parts if callable(part)}
        if not self.functions_ or len(templates) > 1 or not all(isinstance(part, TokenFeatures) for part in templates):
            raise TextError(
                "features must be a template, a function from a sentence to the features of its tokens, or a list of "
                f"functions and at most one template, got {self.parts!r}."
            )
        if len(self.functions_) + len(templates) < len(parts):
            raise TextError(
                "two of the feature functions have the same name; give them different names, because names identify "
                f"functions in model files: {', '.join(name_of(part) for part in parts if callable(part))}."
            )
        if templates and templates[0].n_hashed is not None:
            raise TextError("n_hashed is not supported beside feature functions; use min_count for fewer features.")
        self.token_features_: TokenFeatures | None = (
            TokenFeatures(**templates[0].get_params(deep=False)) if templates else None
        )

    def checked(self) -> OwnFeatures:
        """Return these features if their parts are valid, else raise `TextError`."""
        self._set_up()
        return self

    @property
    def template_(self) -> Any:
        return None if self.token_features_ is None else self.token_features_.template_

    @property
    def joins_labels(self) -> bool:
        """Whether pairs of neighbouring labels have weights."""
        return self.token_features_ is None or self.token_features_.joins_labels

    @property
    def has_pair_features(self) -> bool:
        """Whether pairs of neighbouring tokens have features."""
        return False

    # ---- features ----------------------------------------------------------------------------------------------------

    def read(self, X: Any) -> Columns:
        """Convert sentences to `Columns`. Without a template, tokens may be any objects."""
        if isinstance(X, Columns) or self.token_features_ is not None:
            return Columns.of(X)
        return Columns.of_objects(X)

    def fit(self, X: Any, y: Any = None) -> OwnFeatures:
        """Learn the names of the features of these sentences."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Examples:
        """Learn the names of the features, and return the sentences as `Examples`."""
        self._set_up()
        columns = self.read(X)
        self.n_columns_in_: int = columns.n_columns
        self.n_numbers_: dict[str, int] = {}
        parts: list[tuple[Any, Sequence[str]]] = []
        if self.token_features_ is not None:
            parts.append((self.token_features_.fit_transform(columns).X, self.token_features_.feature_names_ or ()))
            if self.token_features_.has_pair_features:
                raise TextError(
                    "feature functions cannot be combined with a template whose lines B have cells; write lines U."
                )
        for name in self.functions_:
            matrix, names = self._evaluate(name, columns)
            if names is None:
                self.n_numbers_[name] = matrix.shape[1]
                names = self._column_names(name)
            parts.append((matrix, names))
        self._set_names(FeatureNames(dict.fromkeys(chain.from_iterable(names for _, names in parts))))
        places = self.feature_names_.places
        matrices = [self._moved(matrix, np.array([places[name] for name in names])) for matrix, names in parts]
        return self._examples(self._sum(matrices), columns, y)

    def transform(self, X: Any, y: Any = None) -> Examples:
        """Return sentences as `Examples`. Features that did not occur in the fit are ignored."""
        check_is_fitted(self, "feature_names_")
        columns = self.read(X)
        return self._examples(self._matrix(columns), columns, y)

    def entries(self, columns: Columns) -> tuple[FloatArray, IntArray, IntArray]:
        """Return the CSR arrays (data, indices, indptr) of `transform`."""
        matrix = self._matrix(columns)
        return matrix.data, matrix.indices, matrix.indptr.astype(np.int64)

    def _matrix(self, columns: Columns) -> sparse.csr_array:
        matrices = [] if self.token_features_ is None else [self.token_features_.transform(columns).X]
        for name in self.functions_:
            if name in self.n_numbers_:
                matrix, names = self._evaluate(name, columns)
                if columns.n_tokens and (names is not None or matrix.shape[1] != self.n_numbers_[name]):
                    returned = "named features" if names is not None else f"{matrix.shape[1]} columns"
                    raise TextError(
                        f"the feature function {name!r} returned {returned}, but in the fit arrays with "
                        f"{self.n_numbers_[name]} columns."
                    )
                matrices.append(self._moved(matrix, self._places[name]))
            else:
                matrices.append(self._evaluate(name, columns, self.feature_names_)[0])
        return self._sum(matrices)

    def _evaluate(
        self, name: str, columns: Columns, expected: FeatureNames | None = None
    ) -> tuple[sparse.csr_array, Sequence[str] | None]:
        """Return the features of a function, and their names or None.

        With ``expected`` names, these are the columns.
        """
        sentences = [[row[0] for row in rows] if columns.n_columns == 1 else rows for rows in columns]
        numbers = [i for i, rows in enumerate(sentences) if rows]
        if not numbers:
            return csr(np.zeros(0), np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64), len(expected or ())), ()
        outputs = [self.functions_[name](sentences[i]) for i in numbers]
        try:
            features = read_node_features(outputs, expected)
        except ValueError as error:
            raise TextError(
                f"the feature function {name!r} must return a feature dict, a list of names or a row of numbers for "
                f"each token. Of its results, {error}"
            ) from error
        lengths = np.diff(features.offsets)
        if features.flat or len(lengths) != len(numbers):
            raise TextError(f"the feature function {name!r} must return a row for each token of a sentence.")
        wrong = next((k for k, i in enumerate(numbers) if lengths[k] != len(sentences[i])), None)
        if wrong is not None:
            i = numbers[wrong]
            raise TextError(
                f"the feature function {name!r} returned {lengths[wrong]} rows for sentence {i}, which has "
                f"{len(sentences[i])} tokens; return one row for each token."
            )
        return features.X, features.feature_names

    def _column_names(self, name: str) -> list[str]:
        return [f"{name}[{k}]" for k in range(self.n_numbers_[name])]

    def _set_names(self, names: FeatureNames) -> None:
        """Use these names, which may be a subset of those of the fit, or contain others."""
        self.feature_names_: FeatureNames = names
        if self.token_features_ is not None:
            self.token_features_.feature_names_ = names
        column = names.places
        self._places = {
            name: np.array([column[number] for number in self._column_names(name)], dtype=np.int64)
            for name in self.n_numbers_
        }

    def _moved(self, matrix: sparse.csr_array, places: IntArray) -> sparse.csr_array:
        """Return a matrix with its columns at other places. Columns of unknown names are dropped."""
        n, n_names = matrix.shape[0], len(self.feature_names_)
        entries = sparse.csr_array((matrix.data, places[matrix.indices], matrix.indptr), shape=(n, n_names + 1))
        return sparse.csr_array(entries[:, :n_names])

    def _sum(self, matrices: list[sparse.csr_array]) -> sparse.csr_array:
        total = matrices[0].copy() if len(matrices) == 1 else sum(matrices[1:], matrices[0])
        total.sum_duplicates()
        total.eliminate_zeros()
        return csr(total.data, total.indices.astype(np.int32), total.indptr, total.shape[1])

    def _examples(self, matrix: sparse.csr_array, columns: Columns, y: Any) -> Examples:
        labels = None if y is None else read_labels(y, columns.offsets, flat=False)
        return Examples(matrix, columns.offsets, labels, feature_names=self.feature_names_)

    # ---- files -------------------------------------------------------------------------------------------------------

    def to_plain(self) -> dict[str, Any]:
        """Return everything except functions and feature names as plain values for JSON."""
        check_is_fitted(self, "feature_names_")
        return {
            "functions": [[name, self.n_numbers_.get(name)] for name in self.functions_],
            "template": None if self.token_features_ is None else self.token_features_.to_plain(),
            "n_columns_in": self.n_columns_in_,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], names: FeatureNames, functions: Any) -> OwnFeatures:
        """Return features from the values of `to_plain`, the names of a model, and the functions."""
        functions = [] if functions is None else functions if isinstance(functions, (list, tuple)) else [functions]
        expected, passed = [name for name, _ in plain["functions"]], [name_of(function) for function in functions]
        if sorted(expected) != sorted(passed):
            raise FunctionError(
                f"its features are computed by {', '.join(map(repr, expected))}, which the file does not contain; pass "
                f"{'the function' if len(expected) == 1 else 'the functions'} when loading, "
                f"Tagger.load(path, features={expected[0] if len(expected) == 1 else '[' + ', '.join(expected) + ']'})"
                + (f", instead of {', '.join(map(repr, passed))}." if passed else ".")
            )
        template = None if plain["template"] is None else TokenFeatures.from_plain(plain["template"], names)
        by_name = dict(zip(passed, functions))
        parts = [*([] if template is None else [template]), *(by_name[name] for name in expected)]
        features = cls(parts)
        features._set_up()
        features.token_features_ = template
        features.n_columns_in_ = int(plain["n_columns_in"])
        features.n_numbers_ = {name: int(n) for name, n in plain["functions"] if n is not None}
        features._set_names(names)
        return features

    def renamed(self, names: FeatureNames, in_order: bool = True) -> OwnFeatures:
        """Return these features with other names, as `TokenFeatures.renamed`."""
        return self.from_plain(self.to_plain(), names, list(self.functions_.values()))
