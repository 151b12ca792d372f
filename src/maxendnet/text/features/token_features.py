"""Template features of sentences, as `Examples`.

Features are computed column by column on integer codes. Each word form is computed once per distinct word, a window is
a shifted array of codes, and feature names are built only once per distinct feature.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, compress, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from maxendnet import _kernels
from maxendnet.data.examples import Examples
from maxendnet.data.feature_dicts import FeatureNames, Texts, encode_feature_dicts
from maxendnet.data.folder import hashed
from maxendnet.data.labels import read_labels
from maxendnet.data.ragged import csr, offsets_of, owners
from maxendnet.text.features.code_cache import CodeCache
from maxendnet.text.features.templates import READY, Pattern, Template
from maxendnet.text.features.word_forms import FORMS, Gazetteer, form_of, read_clusters, read_gazetteer
from maxendnet.text.reading.columns import Coded, Columns
from maxendnet.text.reading.errors import TextError, check_count
from maxendnet.utils.memory import check_memory
from maxendnet.utils.scikit_learn import BaseEstimator

FloatArray = NDArray[np.float64]
IntArray = NDArray[Any]

FEW_TOKENS = 60
"""Maximum number of tokens whose features are looked up one by one, because array operations are slower then."""
MAX_PAIR_BYTES = 4e9
"""Maximum size of the features of label pairs, which are stored as a dense array."""
BROWN_PREFIXES = (4, 6, 10)
UNSAVED = ("_forms", "_code_cache")


@dataclass(repr=False, eq=False)
class TokenFeatures(BaseEstimator):
    """Transformer from sentences to `Examples`, with the features of a template.

    Parameters
    ----------
    template : str, default="auto"
        Name of a built-in template, or the text of a template (see `maxendnet.text.features.templates`):

        - ``auto``: chosen by the columns of the fit. ``tagged_words`` for several columns, ``characters`` if every
          token is a single character, and ``words`` otherwise;
        - ``words``: window of five words, exact word, shape, case, affixes; for names, addresses, parts of speech;
        - ``tagged_words``: the same, and parts of speech in the second column;
        - ``chunks``: the template of CRF++ for CoNLL-2000, words and parts of speech in a window of five;
        - ``characters``: window of five characters; for word segmentation.
    min_count : int, default=1
        Minimum number of tokens with a feature. Rarer features are dropped.
    n_hashed : int or None, default=None
        Number of columns for hashed features. No names are stored, and the model has a fixed size. By default there is
        one column for each feature.
    gazetteers : dict of str to path or list of str, or None, default=None
        Lists of phrases by name, one phrase per line. Built-in templates include them as features. Other templates
        refer to them as ``%x[0,name]``.
    clusters : dict of str to path or dict, or None, default=None
        Word clusters by name, such as Brown clusters: ``%x[0,name]``, or ``%x[0,name:4]`` for the first four characters
        of the cluster.

    Attributes
    ----------
    template_ : Template
    template_name_ : str
        Name or text of the template: ``template``, or the name that "auto" chose.
    feature_names_ : FeatureNames or None
        Names of the columns, or None for hashed features.
    n_columns_in_ : int
        Number of columns of the sentences.

    Examples
    --------
    >>> features = TokenFeatures("U0=%x[0,0]\\nU1=%x[-1,0]/%x[0,0]")
    >>> examples = features.fit_transform([["the", "dog"], ["dog"]])
    >>> examples
    Examples(n_examples=2, n_nodes=3, n_features=5)
    >>> features.feature_names_
    ('U0=the', 'U0=dog', 'U1=the/dog', 'U1=_B-1/the', 'U1=_B-1/dog')
    >>> features.transform([["the", "cat"]]).X.toarray().astype(int).tolist()
    [[1, 0, 0, 1, 0], [0, 0, 0, 0, 0]]
    """

    template: str = "auto"
    min_count: int = 1
    n_hashed: int | None = None
    gazetteers: Mapping[str, Any] | None = None
    clusters: Mapping[str, Any] | None = None

    @property
    def has_pair_features(self) -> bool:
        """Whether pairs of neighbouring tokens have features."""
        return self.pair_features_ is not None

    @property
    def joins_labels(self) -> bool:
        """Whether pairs of neighbouring labels have weights."""
        return self.template_.bigram

    @staticmethod
    def read(X: Any) -> Columns:
        """Convert sentences to `Columns`."""
        return Columns.of(X)

    # ---- learning the names ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> TokenFeatures:
        """Learn the feature names of these sentences."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Examples:
        """Learn the feature names, and return the sentences as `Examples`."""
        _check_counts(self.min_count, self.n_hashed)
        columns = Columns.of(X)
        self._set_up(
            default_template(columns) if self.template == "auto" else self.template,
            {name: read_gazetteer(source, name) for name, source in (self.gazetteers or {}).items()},
            {name: read_clusters(source, name) for name, source in (self.clusters or {}).items()},
            columns.n_columns,
        )
        if self.pair_features_ is not None:
            self.pair_features_.fit(columns)
        line_codes, names = self._named_codes(columns)
        self.feature_names_: FeatureNames | None = None
        self._merged = True  # whether several lines may produce the same feature
        if self.n_hashed is not None:
            return self._examples(_codes_by_name(line_codes, names, self._hash), columns, y)
        distinct = list(dict.fromkeys(chain.from_iterable(names)))
        self._merged = len(distinct) != sum(map(len, names))
        if self._merged:
            codes = _codes_by_name(line_codes, names, dict(zip(distinct, range(len(distinct)))).__getitem__)
        else:
            codes = _with_columns(line_codes, names, np.arange(len(distinct), dtype=np.int32))
        if self.min_count > 1:
            # if two template lines produce the same feature of a token, it counts twice, as in CRF++
            is_frequent = np.bincount(codes[codes >= 0], minlength=len(distinct)) >= self.min_count
            codes, distinct = _renumbered(codes, is_frequent), list(compress(distinct, is_frequent))
        self.feature_names_ = FeatureNames(distinct)
        return self._examples(codes, columns, y)

    def _set_up(
        self, template: str, gazetteers: dict[str, Gazetteer], clusters: dict[str, dict[str, str]], n_columns: int
    ) -> None:
        """Parse the template, and set the functions that compute its columns."""
        for name in (*gazetteers, *clusters):
            if not re.fullmatch(r"[A-Za-z_]\w*", name) or form_of(name) is not None:
                raise TextError(
                    f"{name!r} is not a valid name for a gazetteer or clusters; use letters, digits and _, do not "
                    f"start with a digit, and avoid names of built-in forms such as lower."
                )
        if set(gazetteers) & set(clusters):
            raise TextError(
                f"{min(set(gazetteers) & set(clusters))!r} names both a gazetteer and clusters; use different names."
            )
        self.gazetteers_: dict[str, Gazetteer] = gazetteers
        self.clusters_: dict[str, dict[str, str]] = clusters
        self.n_columns_in_: int = n_columns
        if not isinstance(template, str):
            raise TextError(f"template must be a name or the text of a template, got {template!r}.")
        if template in READY:
            text = _with_lists(READY[template], gazetteers, clusters)
        elif "%x" in template or template[:1] in ("U", "#"):
            text = template
        else:
            known = ", ".join([*READY, "auto"])
            raise TextError(
                f"template is {template!r}; pass {known}, or the text of a template (read it with read_template)."
            )
        self.template_: Template = Template.parse(text)
        self.template_name_: str = template
        self.pair_features_: TokenFeatures | None = None
        if self.template_.pair_text:
            self.pair_features_ = TokenFeatures(
                self.template_.pair_text, self.min_count, None, self.gazetteers, self.clusters
            )
        self._forms = {name: self._source(name) for name in self.template_.columns}
        self._code_cache: CodeCache | None = None  # built on first use

    def _source(self, column: str) -> tuple[int, Callable[[str], str] | Gazetteer | None]:
        """Return the input column of a template column, and its word form.

        A form of None means the word itself.
        """
        number, dot, form = column.partition(".") if column[0].isdigit() else ("0", ".", column)
        if not number.isdecimal() or int(number) >= self.n_columns_in_:
            raise TextError(
                f"the template uses %x[...,{column}], but the sentences have {self.n_columns_in_} columns, numbered "
                f"from 0."
            )
        if not dot:
            return int(number), None
        if form in self.gazetteers_:
            return int(number), self.gazetteers_[form]
        name, colon, length = form.partition(":")
        if name in self.clusters_ and (not colon or re.fullmatch("[1-9][0-9]?", length)):
            clusters, n = self.clusters_[name], int(length) if colon else None
            # fall back to the lower-case word
            return int(number), lambda word: clusters.get(word, clusters.get(word.lower(), ""))[:n]
        function = form_of(form)
        if function is None:
            known = ", ".join(
                [*FORMS, "prefix1 ... prefix9", "suffix1 ... suffix9", *self.gazetteers_, *self.clusters_]
            )
            raise TextError(f"the template uses %x[...,{column}], but {form!r} is not a word form; use one of {known}.")
        return int(number), function

    # ---- sentences to features ---------------------------------------------------------------------------------------

    def transform(self, X: Any, y: Any = None) -> Examples:
        """Return sentences as `Examples`. Features that did not occur in the fit are ignored."""
        if "template_" not in vars(self):  # check_is_fitted alone takes a tenth of the time for a short sentence
            check_is_fitted(self, "template_")
        columns = Columns.of(X)
        return self._examples(self._codes(columns), columns, y)

    def entries(self, columns: Columns) -> tuple[FloatArray, IntArray, IntArray]:
        """Return the CSR arrays (data, indices, indptr) of `transform`."""
        return self._nonzero(self._codes(columns))

    @property
    def _n_features(self) -> int:
        return int(self.n_hashed) if self.feature_names_ is None else len(self.feature_names_)  # type: ignore[arg-type]

    def _hash(self, name: str) -> int:
        return hashed(name, int(self.n_hashed))  # type: ignore[arg-type]

    def _examples(self, codes: IntArray, columns: Columns, y: Any) -> Examples:
        offsets = columns.offsets
        labels = None if y is None else read_labels(y, offsets, flat=False)
        X = csr(*self._nonzero(codes), self._n_features)
        return Examples(
            X, offsets, labels, edge_features=self._edge_features(columns), feature_names=self.feature_names_
        )

    def _edge_features(self, columns: Columns) -> FloatArray | None:
        """Return the features of pairs of neighbouring tokens, shape (n_edges, n_pair_features)."""
        if self.pair_features_ is None:
            return None
        X = self.pair_features_.transform(columns).X
        is_second = np.ones(columns.n_tokens, dtype=bool)
        is_second[columns.offsets[:-1][np.diff(columns.offsets) > 0]] = False
        check_memory(
            8 * int(is_second.sum()) * X.shape[1],
            f"the template lines B with cells have {X.shape[1]:,} features of {is_second.sum():,} label pairs, which",
            "use cells with fewer values, such as parts of speech, or a larger min_count",
            MAX_PAIR_BYTES,
            TextError,
        )
        return np.asarray(X[np.flatnonzero(is_second)].toarray())

    def _nonzero(self, codes: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
        """Return the CSR arrays of binary features with these codes."""
        keep = codes >= 0
        if keep.all():
            indices, indptr = codes.ravel(), np.arange(len(codes) + 1) * codes.shape[1]
        else:
            indices, indptr = codes[keep], offsets_of(keep.sum(axis=1))
        if not self._merged:  # codes ascend with the lines of the template
            return np.ones(len(indices)), indices, indptr
        X = csr(np.ones(len(indices)), indices, indptr, self._n_features)
        X.sum_duplicates()
        return X.data, X.indices, X.indptr.astype(np.int64)

    def _codes(self, columns: Columns) -> IntArray:
        """Return the column of each token's feature for each line of the template.

        Returns
        -------
        ndarray of shape (n_tokens, n_lines), int32
            -1 if there is no feature, or the feature did not occur in the fit.
        """
        if columns.n_columns != self.n_columns_in_ and columns.n_tokens:
            raise TextError(
                f"the sentences have {columns.n_columns} columns, but those of the fit had {self.n_columns_in_}; pass "
                f"the same columns."
            )
        if not columns.n_tokens:
            return np.zeros((0, len(self.template_.patterns)), dtype=np.int32)
        if columns.n_tokens <= FEW_TOKENS:
            codes = self._codes_of_few_tokens(columns)
        elif self.feature_names_ is None:
            codes = _codes_by_name(*self._named_codes(columns), self._hash)
        else:
            codes = self._codes_by_kernel(columns, self.feature_names_)
        codes[codes >= self._n_features] = -1
        return codes

    def _named_codes(self, columns: Columns) -> tuple[list[IntArray], list[list[str]]]:
        """Return the feature codes of tokens for each template line, and their names.

        Codes start at 0 for each line. -1 means no feature.
        """
        at, padded = self._padded(columns)
        lines = [_line_codes(pattern, padded, at) for pattern in self.template_.patterns]
        return [codes for codes, _ in lines], [names for _, names in lines]

    def _codes_by_kernel(self, columns: Columns, names: FeatureNames) -> IntArray:
        """Look up features by a kernel, which does not build their names as strings."""
        at, padded = self._padded(columns)
        patterns = self.template_.patterns
        number_of = {name: k for k, name in enumerate(padded)}
        macros = [macro for pattern in patterns for macro in pattern.macros]
        cells = [(codes, *Texts.of(values)) for codes, values in padded.values()]
        out = np.empty((columns.n_tokens, len(patterns)), dtype=np.int32)
        _kernels.find_features(
            *names.table, offsets_of(len(pattern.macros) for pattern in patterns),
            np.array([macro.row for macro in macros], dtype=np.int64),
            np.array([number_of[macro.column] for macro in macros], dtype=np.int64),
            *Texts.of([text for pattern in patterns for text in pattern.texts]), cells, at, out,
        )  # fmt: skip
        return out

    def _padded(self, columns: Columns) -> tuple[IntArray, dict[str, Coded]]:
        """Return the columns of the template with border cells around each sentence.

        Returns
        -------
        at : ndarray of shape (n_tokens,)
            Position of each token in the padded columns.
        padded : dict of str to Coded
        """
        reach, n = self.template_.reach, columns.n_tokens
        at = np.arange(n) + reach * (2 * owners(columns.offsets) + 1)
        width = n + 2 * reach * len(columns)
        border = np.tile(np.arange(2 * reach), len(columns))
        is_border = np.ones(width, dtype=bool)
        is_border[at] = False
        before, after = _border_cells(reach)
        padded = {}
        for name, coded in self._coded(columns).items():
            codes = np.empty(width, dtype=np.int32)
            codes[at] = coded.codes
            codes[is_border] = len(coded.values) + border
            padded[name] = Coded(codes, coded.values + before + after)
        return at, padded

    def _coded(self, columns: Columns) -> dict[str, Coded]:
        """Return the columns of the template as codes."""
        words = {number: columns.numbered(number) for number in {number for number, _ in self._forms.values()}}
        coded = {}
        for name, (number, form) in self._forms.items():
            if form is None:
                coded[name] = words[number]
            elif isinstance(form, Gazetteer):
                cells = columns.cells[number]
                tags = (form.tags(cells[a:b]) for a, b in pairwise(columns.offsets.tolist()))
                coded[name] = Coded.of(list(chain.from_iterable(tags)))
            else:
                codes, values = words[number]
                form_codes, form_values = Coded.of(list(map(form, values)))
                coded[name] = Coded(form_codes[codes], form_values)
        return coded

    def _codes_of_few_tokens(self, columns: Columns) -> IntArray:
        """Look up features token by token, with caches."""
        if self._code_cache is None:
            code_of = self._hash if self.feature_names_ is None else self.feature_names_.places.__getitem__
            template = self.template_
            self._code_cache = CodeCache(template.patterns, self._forms, template.reach, code_of)
        numbers = {number for number, _ in self._forms.values()}
        sentences = [
            self._code_cache.codes({number: columns.cells[number][first:last] for number in numbers}, last - first)
            for first, last in pairwise(columns.offsets.tolist())
        ]
        return sentences[0] if len(sentences) == 1 else np.concatenate(sentences)

    # ---- files -------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        # the functions of word forms cannot be pickled, so __setstate__ creates them again
        return {key: value for key, value in super().__getstate__().items() if key not in UNSAVED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "template_" in state:
            self._set_up(self.template_name_, self.gazetteers_, self.clusters_, self.n_columns_in_)
            self.pair_features_ = state["pair_features_"]

    def to_plain(self) -> dict[str, Any]:
        """Return everything except the feature names as plain values for JSON."""
        check_is_fitted(self, "template_")
        return {
            "template": self.template_name_,
            "min_count": int(self.min_count),
            "n_hashed": None if self.n_hashed is None else int(self.n_hashed),
            "gazetteers": {name: gazetteer.phrases for name, gazetteer in self.gazetteers_.items()},
            "clusters": self.clusters_,
            "n_columns_in": self.n_columns_in_,
            "merged": self._merged,
            "pair_features": None if self.pair_features_ is None else list(self.pair_features_.feature_names_ or ()),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], feature_names: FeatureNames | None) -> TokenFeatures:
        """Return features from the values of `to_plain` and the names of a model."""
        gazetteers, clusters = dict(plain["gazetteers"]), dict(plain["clusters"])
        _check_counts(plain["min_count"], plain["n_hashed"])
        if (plain["n_hashed"] is None) != (feature_names is not None):
            raise TextError("features must be either hashed or named in the model")
        n_columns, merged = plain["n_columns_in"], plain["merged"]
        if type(n_columns) is not int or n_columns < 1 or type(merged) is not bool:
            raise TextError(f"n_columns_in is {n_columns!r} and merged is {merged!r}")
        features = cls(plain["template"], plain["min_count"], plain["n_hashed"], gazetteers or None, clusters or None)
        features._set_up(
            plain["template"],
            {name: read_gazetteer(list(phrases), name) for name, phrases in gazetteers.items()},
            {name: read_clusters(dict(words), name) for name, words in clusters.items()},
            n_columns,
        )
        features._merged, features.feature_names_ = merged, feature_names
        pairs = features.pair_features_
        names = plain.get("pair_features")  # old files do not have it
        if (names is None) != (pairs is None):
            raise TextError("the names of the features of label pairs do not match the template")
        if pairs is not None and names is not None:
            nested = {**plain, "template": features.template_.pair_text, "n_hashed": None, "pair_features": None}
            features.pair_features_ = cls.from_plain(nested | {"merged": True}, FeatureNames(names))
        return features

    @property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """Beginning of the feature names of each template line, and its macros, unless the names mention them."""
        if self.template_name_ in READY:
            return ()
        return tuple(
            (pattern.texts[0], "/".join(f"%x[{macro.row},{macro.column}]" for macro in pattern.macros))
            for pattern in self.template_.patterns
            if pattern.macros
        )

    def renamed(self, names: FeatureNames | None, in_order: bool = True) -> TokenFeatures:
        """Return these features with other names.

        ``in_order`` is whether these are names of the fit in their order.
        """
        return self.from_plain(self.to_plain() | {"merged": self._merged or not in_order}, names)


def default_template(columns: Columns) -> str:
    """Return the name of the default template for sentences with these columns.

    Examples
    --------
    >>> default_template(Columns.of([["It", "works"]])), default_template(Columns.of([[("It", "PRP")]]))
    ('words', 'tagged_words')
    """
    if columns.n_columns > 1:
        return "tagged_words"
    lengths = set(map(len, columns.cells[0]))
    return "characters" if lengths == {1} else "words"


def _check_counts(min_count: Any, n_hashed: Any) -> None:
    check_count("min_count", min_count)
    if n_hashed is not None:
        check_count("n_hashed", n_hashed)


def _with_lists(text: str, gazetteers: Mapping[str, Any], clusters: Mapping[str, Mapping[str, str]]) -> str:
    """Add features of gazetteers and clusters to a built-in template."""
    forms = list(gazetteers)
    for name, words in clusters.items():
        brown = set("".join(set(words.values()))) <= {"0", "1"}
        forms += [f"{name}:{n}" for n in BROWN_PREFIXES if brown] + [name]
    lines = [f"U{form}[{row:+d}]=%x[{row},{form}]" for form in forms for row in (-1, 0, 1)]
    return text.replace("\nB\n", "\n" + "\n".join([*lines, "B", ""])) if lines else text


def _border_cells(reach: int) -> tuple[list[str], list[str]]:
    """Return the cells before and after a sentence."""
    return [f"_B-{k}" for k in range(reach, 0, -1)], [f"_B+{k}" for k in range(1, reach + 1)]


def _line_codes(pattern: Pattern, padded: Mapping[str, Coded], at: IntArray) -> tuple[IntArray, list[str]]:
    """Return the feature codes of tokens for a template line, and their names."""
    texts, macros = pattern
    if not macros:
        return np.zeros(len(at), dtype=np.int64), [texts[0]]
    is_missing = np.zeros(len(at), dtype=bool)
    key = np.zeros(len(at), dtype=np.int64)
    names = [texts[0]]  # names of the keys, up to the next macro
    for (row, column), text in zip(macros, texts[1:]):
        codes, values = padded[column]
        shifted = codes[at + row]
        if "" in values:
            is_missing |= shifted == values.index("")
        if len(names) == 1:
            present = np.flatnonzero(np.bincount(shifted, minlength=len(values)))
            rank = np.empty(len(values), dtype=np.int64)
            rank[present] = np.arange(len(present))
            key = rank[shifted]
            start = names[0]
            names = [start + values[v] + text for v in present.tolist()]
        else:
            distinct, key = np.unique(key * len(values) + shifted, return_inverse=True)
            left, right = np.divmod(distinct, len(values))
            ends = [value + text for value in values] if text else values
            names = [names[a] + ends[b] for a, b in zip(left.tolist(), right.tolist())]
    if is_missing.any():
        key = np.where(is_missing, -1, key)
        is_used = np.bincount(key[~is_missing], minlength=len(names)) > 0
        return _renumbered(key, is_used), list(compress(names, is_used))
    return key, names


def _renumbered(codes: IntArray, keep: NDArray[np.bool_]) -> IntArray:
    """Return the codes after features are dropped. -1 means no feature."""
    rank = np.append(np.where(keep, np.cumsum(keep) - 1, -1), -1)  # the last entry is for the code -1
    return rank.astype(codes.dtype)[codes]


def _codes_by_name(line_codes: list[IntArray], names: list[list[str]], code_of: Callable[[str], int]) -> IntArray:
    """Replace codes of template lines by the columns of the feature names, shape (n_tokens, n_lines)."""
    flat = list(chain.from_iterable(names))
    return _with_columns(line_codes, names, np.fromiter(map(code_of, flat), dtype=np.int32, count=len(flat)))


def _with_columns(line_codes: list[IntArray], names: list[list[str]], columns: IntArray) -> IntArray:
    """Replace codes of template lines by columns, shape (n_tokens, n_lines).

    ``columns`` contains the column of each name, for the concatenated names of all lines.
    """
    starts = offsets_of(map(len, names))
    out = np.empty((len(line_codes[0]), len(line_codes)), dtype=np.int32)
    for k, codes in enumerate(line_codes):
        # the last entry is for the code -1
        out[:, k] = np.append(columns[starts[k] : starts[k + 1]], np.int32(-1))[codes]
    return out


@dataclass(repr=False, eq=False)
class DictFeatures(BaseEstimator):
    """Transformer from feature dicts to `Examples`, with rare features dropped.

    Estimators accept feature dicts directly. Use this class for a minimum count or a fixed number of columns.

    Parameters
    ----------
    min_count : int, default=1
        Minimum number of nodes with a feature. Rarer features are dropped.
    n_hashed : int or None, default=None
        Number of columns for hashed features. By default there is one column for each feature.

    Attributes
    ----------
    feature_names_ : FeatureNames or None
        Names of the columns; None for hashed features.

    Examples
    --------
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "the"}]]
    >>> features = DictFeatures(min_count=2)
    >>> features.fit_transform(X).X.toarray().tolist(), features.feature_names_
    ([[1.0], [0.0], [1.0]], ('word=the',))
    """

    min_count: int = 1
    n_hashed: int | None = None

    def fit(self, X: Any, y: Any = None) -> DictFeatures:
        """Learn the names of frequent features."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Examples:
        """Learn the names of frequent features, and return the nodes as `Examples`."""
        _check_counts(self.min_count, self.n_hashed)
        self.feature_names_: FeatureNames | None = None
        if self.n_hashed is None:
            matrix, names = encode_feature_dicts(X)
            is_frequent = np.bincount(matrix.indices, minlength=len(names)) >= self.min_count
            self.feature_names_ = FeatureNames(compress(names, is_frequent))
        return self.transform(X, y)

    def transform(self, X: Any, y: Any = None) -> Examples:
        """Return nodes as `Examples` with the features of the fit."""
        check_is_fitted(self, "feature_names_")
        X = [list(nodes) for nodes in X]
        if self.feature_names_ is not None:
            return Examples.build(X, y, feature_names=self.feature_names_)
        named = Examples.build(X, y)
        n = int(self.n_hashed)  # type: ignore[arg-type]
        columns = np.array([hashed(name, n) for name in named.feature_names or ()], dtype=np.int32)
        matrix = csr(named.X.data, columns[named.X.indices], named.X.indptr, n)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return Examples(matrix, named.offsets, named.y)
