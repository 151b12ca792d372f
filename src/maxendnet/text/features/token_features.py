"""From sentences to `Examples`: the features of a template, made column by column.

Every column is numbered once, a form of a word is computed once for every distinct word, and a feature of a window is a
shifted array of numbers. Names are written for distinct features only. So the time goes with the number of distinct
features and the number of entries, not with the number of strings that a program for single tokens would make.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from maxendnet import _kernels
from maxendnet.data.examples import Examples
from maxendnet.data.feature_dicts import FeatureNames, Texts, encode_feature_dicts
from maxendnet.data.labels import read_labels
from maxendnet.data.ragged import csr, offsets_of, owners
from maxendnet.text.features.templates import READY, Pattern, Template
from maxendnet.text.features.word_forms import Gazetteer, form_of, read_clusters, read_gazetteer
from maxendnet.text.reading.columns import Coded, Columns
from maxendnet.text.reading.errors import TextError

FloatArray = NDArray[np.float64]
IntArray = NDArray[Any]

FEW_TOKENS = 60
"""Up to so many tokens at a time are looked up one by one: arrays are slower to begin."""
MOST_REMEMBERED = 100_000
"""Forms of so many words are remembered for the next sentence."""
BROWN_PREFIXES = (4, 6, 10)
UNSAVED = ("_forms", "_remembered", "_lines")


class _Remembered(dict[str, str]):
    """A form of words, computed once for each word."""

    def __init__(self, form: Callable[[str], str]) -> None:
        super().__init__()
        self.form = form

    def __missing__(self, word: str) -> str:
        value = self.form(word)
        if len(self) < MOST_REMEMBERED:
            self[word] = value
        return value


class _Line(dict[Any, int]):
    """The columns of one line of a template by the cells that it was made from: a cell, or a tuple of several."""

    def __init__(self, texts: tuple[str, ...], place_of: Callable[[str], int]) -> None:
        super().__init__()
        self.form, self.place_of = "%s".join(text.replace("%", "%%") for text in texts), place_of

    def __missing__(self, cells: Any) -> int:
        missing = "" in cells if type(cells) is tuple else not cells
        place = -1 if missing else self.place_of(self.form % cells)
        if len(self) < MOST_REMEMBERED:
            self[cells] = place
        return place


class TokenFeatures(BaseEstimator):
    """Features of tokens by a template, as `Examples`.

    Parameters
    ----------
    template : str, default="auto"
        The name of a ready one, or the text of a template (see `maxendnet.text.features.templates`):

        - ``auto``: chosen by the columns of the fit. ``tagged_words`` if there are several, ``characters`` if every
          token is a single character, and ``words`` otherwise; `maxendnet train` has the same default;
        - ``words``: words in a window of five, exact word, shape, case, affixes; for names, addresses, parts of speech;
        - ``tagged_words``: the same, and parts of speech in the second column;
        - ``chunks``: the template of CRF++ for CoNLL-2000: words and parts of speech in a window of five;
        - ``characters``: single characters in a window of five; for segmentation.
    min_count : int, default=1
        Features that fewer tokens have are left out.
    n_hashed : int or None, default=None
        Put features into so many columns by a hash of their names instead of numbering them: no names are kept, and
        the model has a fixed size.
    gazetteers : dict of str to path or list of str, or None, default=None
        Lists of phrases by name, one a line. A ready template has features of them; in one of your own they are
        written ``%x[0,name]``.
    clusters : dict of str to path or dict, or None, default=None
        Clusters of words by name, such as Brown clusters; ``%x[0,name]``, or ``%x[0,name:4]`` for the first four
        characters.

    Attributes
    ----------
    template_ : Template
    template_name_ : str
        Its name or text: ``template``, or the name that "auto" stands for.
    feature_names_ : FeatureNames or None
        None where they are hashed.
    n_columns_in_ : int

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

    def __init__(
        self,
        template: str = "auto",
        min_count: int = 1,
        n_hashed: int | None = None,
        gazetteers: Mapping[str, Any] | None = None,
        clusters: Mapping[str, Any] | None = None,
    ) -> None:
        self.template = template
        self.min_count = min_count
        self.n_hashed = n_hashed
        self.gazetteers = gazetteers
        self.clusters = clusters

    # ---- learning the names ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> TokenFeatures:
        """Learn the names of the features of these sentences."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Examples:
        """Learn the names, and the same sentences as `Examples`; with ``y``, with these labels."""
        check_counts(self.min_count, self.n_hashed)
        columns = Columns.of(X)
        self._set_up(
            default_template(columns) if self.template == "auto" else self.template,
            {name: read_gazetteer(source, name) for name, source in (self.gazetteers or {}).items()},
            {name: read_clusters(source, name) for name, source in (self.clusters or {}).items()},
            columns.n_columns,
        )
        places, names = self._entries(columns)
        if self.n_hashed is None:
            kept = list(dict.fromkeys(chain.from_iterable(names)))
            column = _with_offsets(places, names)
            merged = len(kept) != sum(map(len, names))
            if merged:  # lines that give the same text give the same feature
                place_of = {name: k for k, name in enumerate(kept)}
                target = np.array([place_of[name] for name in chain.from_iterable(names)], dtype=np.int32)
                column = np.where(column < 0, np.int32(-1), target[column])
            column, kept = self._frequent(column, kept)
            self.feature_names_: FeatureNames | None = FeatureNames(kept)
            self._merged = merged
            n_features = len(kept)
        else:
            column = _looked_up(places, names, self._hash)
            self.feature_names_, self._merged, n_features = None, True, int(self.n_hashed)
        return self._examples(column, columns.offsets, n_features, y)

    def _frequent(self, column: IntArray, names: list[str]) -> tuple[IntArray, list[str]]:
        """Without the features that fewer than ``min_count`` tokens have."""
        if self.min_count <= 1:
            return column, names
        # a feature that a token has twice, from two lines of the template, counts twice, as in CRF++
        enough = np.bincount(column[column >= 0], minlength=len(names)) >= self.min_count
        rank = np.where(enough, np.cumsum(enough) - 1, -1).astype(np.int32)
        return np.where(column < 0, np.int32(-1), rank[column]), [
            name for name, keep in zip(names, enough.tolist()) if keep
        ]

    def _set_up(
        self, template: str, gazetteers: dict[str, Gazetteer], clusters: dict[str, dict[str, str]], n_columns: int
    ) -> None:
        """All that does not depend on the names: the template, its columns, and how they are computed."""
        for name in (*gazetteers, *clusters):
            if not re.fullmatch(r"[A-Za-z_]\w*", name) or form_of(name) is not None:
                raise TextError(
                    f"{name!r} is no name for a gazetteer or clusters; give a word that is no form already."
                )
        if set(gazetteers) & set(clusters):
            raise TextError(f"{min(set(gazetteers) & set(clusters))!r} names a gazetteer and clusters; give two names.")
        self.gazetteers_, self.clusters_, self.n_columns_in_ = gazetteers, clusters, n_columns
        if not isinstance(template, str):
            raise TextError(f"template must be a name or the text of a template, got {template!r}.")
        if template in READY:
            text = _with_lists(READY[template], gazetteers, clusters)
        elif "%x" in template or template[:1] in ("U", "#"):
            text = template
        else:
            known = ", ".join([*READY, "auto"])
            raise TextError(
                f"template is {template!r}; give {known}, or the text of a template (read_template reads a file)."
            )
        self.template_, self.template_name_ = Template.parse(text), template
        self._forms = {name: self._source(name) for name in self.template_.columns}
        self._remembered = {name: _Remembered(form) for name, (_, form) in self._forms.items() if callable(form)}
        self._lines: list[_Line] | None = None  # what was looked up, made when it is first needed

    def _source(self, column: str) -> tuple[int, Callable[[str], str] | Gazetteer | None]:
        """Which column of the input a column of the template is made from, and how."""
        number, dot, form = column.partition(".") if column[0].isdigit() else ("0", ".", column)
        if not number.isdecimal() or int(number) >= self.n_columns_in_:
            raise TextError(
                f"the template asks for %x[...,{column}], and the sentences have {self.n_columns_in_} columns, "
                f"numbered from 0."
            )
        if not dot:
            return int(number), None
        if form in self.gazetteers_:
            return int(number), self.gazetteers_[form]
        name, colon, length = form.partition(":")
        if name in self.clusters_ and (not colon or re.fullmatch("[1-9][0-9]?", length)):
            clusters, n = self.clusters_[name], int(length) if colon else None
            # a word that was not met in capital letters may be known in small ones
            return int(number), lambda word: clusters.get(word, clusters.get(word.lower(), ""))[:n]
        function = form_of(form)
        if function is None:
            known = ", ".join(["lower, shape, short_shape, case, digits, kind, length, prefix1, suffix1",
                               *self.gazetteers_, *self.clusters_])  # fmt: skip
            raise TextError(
                f"the template asks for %x[...,{column}], and there is no form {form!r}; there are {known}."
            )
        return int(number), function

    # ---- sentences to features ---------------------------------------------------------------------------------------

    def transform(self, X: Any, y: Any = None) -> Examples:
        """Sentences as `Examples` with the features that `fit` has seen; others are left out."""
        if "template_" not in vars(self):
            check_is_fitted(self, "template_")
        columns = Columns.of(X)
        return self._examples(self._places(columns), columns.offsets, self._n_features, y)

    @property
    def _n_features(self) -> int:
        return int(self.n_hashed) if self.feature_names_ is None else len(self.feature_names_)  # type: ignore[arg-type]

    def _places(self, columns: Columns) -> IntArray:
        """The number of each token's feature for every line of the template, shape (n_tokens, n_lines).

        -1 stands for no feature, or for one that `fit` has not seen.
        """
        if columns.n_columns != self.n_columns_in_ and columns.n_tokens:
            raise TextError(
                f"the sentences have {columns.n_columns} columns, and those of the fit had {self.n_columns_in_}; give "
                f"the same."
            )
        if not columns.n_tokens:
            return np.zeros((0, len(self.template_.patterns)), dtype=np.int32)
        if columns.n_tokens <= FEW_TOKENS:
            column = self._few(columns)
        elif self.feature_names_ is None:
            column = _looked_up(*self._entries(columns), self._hash)
        else:
            column = self._found(columns, self.feature_names_)
        column[column >= self._n_features] = -1
        return column

    def _hash(self, name: str) -> int:
        return crc32(name.encode("utf-8", "surrogatepass")) % int(self.n_hashed)  # type: ignore[arg-type]

    def _examples(self, column: IntArray, offsets: IntArray, n_features: int, y: Any) -> Examples:
        """Examples with the value 1 in these columns; -1 is nothing. ``column`` has shape (n_tokens, n_patterns)."""
        labels = None if y is None else read_labels(y, offsets, flat=False)
        X = csr(*self._nonzero(column, n_features), n_features)
        return Examples(X, offsets, labels, feature_names=self.feature_names_)

    def _nonzero(self, column: IntArray, n_features: int) -> tuple[FloatArray, IntArray, IntArray]:
        """Values, columns and offsets of the entries of these tokens."""
        n_tokens, n_patterns = column.shape
        keep = column >= 0
        if keep.all():
            indices = column.ravel()
            counts = np.arange(0, n_tokens * n_patterns + 1, n_patterns or 1, dtype=np.int64)[: n_tokens + 1]
        else:
            indices = column[keep]
            counts = offsets_of(keep.sum(axis=1))
        indices = indices.astype(np.int32, copy=False)
        if not self._merged:  # columns ascend with the lines of the template
            return np.ones(len(indices)), indices, counts
        X = csr(np.ones(len(indices)), indices, counts, n_features)
        X.sum_duplicates()
        return X.data, X.indices, X.indptr.astype(np.int64)

    def entries(self, columns: Columns) -> tuple[FloatArray, IntArray, IntArray]:
        """What `transform` has of these sentences, without the checks of a matrix: values, columns and offsets."""
        return self._nonzero(self._places(columns), self._n_features)

    def _entries(self, columns: Columns) -> tuple[list[IntArray], list[list[str]]]:
        """For every line of the template the number of each token's feature, and the names that the numbers stand for.

        Numbers begin at 0 for every line; -1 stands for no feature.
        """
        at, padded = self._padded(columns)
        found = [_entries_of(pattern, padded, at) for pattern in self.template_.patterns]
        return [places for places, _ in found], [names for _, names in found]

    def _found(self, columns: Columns, names: FeatureNames) -> IntArray:
        """As `_entries` with the names looked up, but for known names no string is made. Others are -1."""
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
        """The columns that the template uses as numbers, with cells beyond the ends of sentences; where tokens are."""
        reach, n = self.template_.reach, columns.n_tokens
        sentence = owners(columns.offsets)
        at = np.arange(n) + reach * (2 * sentence + 1)
        width = n + 2 * reach * len(columns)
        border = np.tile(np.arange(2 * reach), len(columns))
        is_border = np.ones(width, dtype=bool)
        is_border[at] = False
        outside = [f"_B-{k}" for k in range(reach, 0, -1)] + [f"_B+{k}" for k in range(1, reach + 1)]
        padded = {}
        for name, coded in self._coded(columns).items():
            codes = np.empty(width, dtype=np.int32)
            codes[at] = coded.codes
            codes[is_border] = len(coded.values) + border
            padded[name] = Coded(codes, coded.values + outside)
        return at, padded

    def _coded(self, columns: Columns) -> dict[str, Coded]:
        """The columns that the template uses, as numbers."""
        raw: dict[int, Coded] = {}
        for number, _ in self._forms.values():
            if number not in raw:
                raw[number] = columns.numbered(number)
        found = {}
        for name, (number, form) in self._forms.items():
            base = raw[number]
            if form is None:
                found[name] = base
            elif isinstance(form, Gazetteer):
                cells = columns.cells[number]
                parts = (form.tags(cells[a:b]) for a, b in pairwise(columns.offsets.tolist()))
                found[name] = Coded.of(list(chain.from_iterable(parts)))
            else:
                of_values = Coded.of(list(map(form, base.values)))
                found[name] = Coded(of_values.codes[base.codes], of_values.values)
        return found

    def _few(self, columns: Columns) -> IntArray:
        """As `_entries` with the names looked up, for few tokens: by what was looked up before."""
        if self._lines is None:
            place_of = self._hash if self.feature_names_ is None else self.feature_names_.places.__getitem__
            self._lines = [_Line(pattern.texts, place_of) for pattern in self.template_.patterns]
        reach, patterns = self.template_.reach, self.template_.patterns
        before, behind = [f"_B-{k}" for k in range(reach, 0, -1)], [f"_B+{k}" for k in range(1, reach + 1)]
        rows = np.empty((columns.n_tokens, len(patterns)), dtype=np.int32)
        for first, last in pairwise(columns.offsets.tolist()):
            cells = {}
            for name, (number, form) in self._forms.items():
                words = columns.cells[number][first:last]
                if isinstance(form, Gazetteer):
                    words = form.tags(words)
                elif form is not None:
                    words = list(map(self._remembered[name].__getitem__, words))
                cells[name] = before + words + behind
            start, end = reach, reach + last - first
            places: list[int] = []
            for line, (_, macros) in zip(self._lines, patterns):
                if len(macros) == 1:
                    row, name = macros[0]
                    keys: Any = cells[name][start + row : end + row]
                elif macros:
                    keys = zip(*[cells[name][start + row : end + row] for row, name in macros])
                else:
                    keys = [()] * (last - first)
                places.extend(map(line.__getitem__, keys))
            rows[first:last] = np.array(places, dtype=np.int32).reshape(len(patterns), last - first).T
        return rows

    # ---- files -------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        # functions of forms cannot be pickled, and are made anew
        return {key: value for key, value in super().__getstate__().items() if key not in UNSAVED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "template_" in state:
            self._set_up(self.template_name_, self.gazetteers_, self.clusters_, self.n_columns_in_)

    def to_plain(self) -> dict[str, Any]:
        """All but the names of features as plain values, ready for JSON."""
        check_is_fitted(self, "template_")
        return {
            "template": self.template_name_,
            "min_count": int(self.min_count),
            "n_hashed": None if self.n_hashed is None else int(self.n_hashed),
            "gazetteers": {name: gazetteer.phrases for name, gazetteer in self.gazetteers_.items()},
            "clusters": self.clusters_,
            "n_columns_in": self.n_columns_in_,
            "merged": self._merged,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], feature_names: Sequence[str] | None) -> TokenFeatures:
        """What `to_plain` described, with the names of a model."""
        gazetteers, clusters = dict(plain["gazetteers"]), dict(plain["clusters"])
        check_counts(plain["min_count"], plain["n_hashed"])
        if (plain["n_hashed"] is None) != (feature_names is not None):
            raise TextError("features are hashed, or have names in the model; here both or neither")
        n_columns, merged = plain["n_columns_in"], plain["merged"]
        if type(n_columns) is not int or n_columns < 1 or type(merged) is not bool:
            raise TextError(f"n_columns_in is {n_columns!r} and merged is {merged!r}")
        found = cls(plain["template"], plain["min_count"], plain["n_hashed"], gazetteers or None, clusters or None)
        found._set_up(
            plain["template"],
            {name: read_gazetteer(list(phrases), name) for name, phrases in gazetteers.items()},
            {name: read_clusters(dict(words), name) for name, words in clusters.items()},
            n_columns,
        )
        found._merged = merged
        found.feature_names_ = None if feature_names is None else FeatureNames(feature_names)
        return found


def default_template(columns: Columns) -> str:
    """Name of the ready template for sentences with these columns.

    Examples
    --------
    >>> default_template(Columns.of([["It", "works"]])), default_template(Columns.of([[("It", "PRP")]]))
    ('words', 'tagged_words')
    """
    if columns.n_columns > 1:
        return "tagged_words"
    lengths = set(map(len, columns.cells[0]))
    return "characters" if lengths == {1} else "words"


def check_counts(min_count: Any, n_hashed: Any) -> None:
    """Raise unless both are whole numbers of at least 1, or the second is None."""
    for name, value in (("min_count", min_count), ("n_hashed", 1 if n_hashed is None else n_hashed)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value < 2**31:
            raise TextError(f"{name} must be a whole number of at least 1, got {value!r}.")


def _with_lists(text: str, gazetteers: Mapping[str, Any], clusters: Mapping[str, Mapping[str, str]]) -> str:
    """A ready template with features of lists and clusters, each of a token and its neighbours."""
    lines = []
    for name in gazetteers:
        lines += [f"U{name}[{row:+d}]=%x[{row},{name}]" for row in (-1, 0, 1)]
    for name, words in clusters.items():
        brown = set("".join(set(words.values()))) <= {"0", "1"}
        for form in [f"{name}:{n}" for n in BROWN_PREFIXES if brown] + [name]:
            lines += [f"U{form}[{row:+d}]=%x[{row},{form}]" for row in (-1, 0, 1)]
    return text.replace("\nB\n", "\n" + "\n".join([*lines, "B", ""])) if lines else text


def _entries_of(pattern: Pattern, padded: Mapping[str, Coded], at: IntArray) -> tuple[IntArray, list[str]]:
    """The number of every token's feature and the names, for one line of a template."""
    texts, macros = pattern
    if not macros:
        return np.zeros(len(at), dtype=np.int64), [texts[0]]
    missing = np.zeros(len(at), dtype=bool)
    key = np.zeros(len(at), dtype=np.int64)
    names = [texts[0]]  # what the keys stand for, up to the next macro
    for (row, name), text in zip(macros, texts[1:]):
        codes, values = padded[name]
        shifted = codes[at + row]
        if "" in values:
            missing |= shifted == values.index("")
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
    if missing.any():
        key = np.where(missing, -1, key)
        used = np.zeros(len(names), dtype=bool)
        used[key[~missing]] = True
        rank = np.where(used, np.cumsum(used) - 1, -1)
        key = np.where(missing, -1, rank[key])
        names = [name for name, keep in zip(names, used.tolist()) if keep]
    return key, names


def _with_offsets(places: list[IntArray], names: list[list[str]]) -> IntArray:
    """Numbers that count on from line to line, shape (n_tokens, n_patterns)."""
    out = np.empty((len(places[0]), len(places)), dtype=np.int32)
    start = 0
    for k, (place, some) in enumerate(zip(places, names)):
        out[:, k] = place
        out[:, k] += start
        if len(place) and place.min() < 0:
            out[place < 0, k] = -1
        start += len(some)
    return out


def _looked_up(places: list[IntArray], names: list[list[str]], place_of: Callable[[str], int]) -> IntArray:
    """The columns of all features by their names, shape (n_tokens, n_patterns)."""
    out = np.empty((len(places[0]), len(places)), dtype=np.int32)
    for k, (place, some) in enumerate(zip(places, names)):
        # one more for the number -1, which is the last
        columns = np.fromiter(map(place_of, some), dtype=np.int32, count=len(some))
        out[:, k] = np.append(columns, np.int32(-1))[place]
    return out


class DictFeatures(BaseEstimator):
    """Feature dicts as `Examples`, without rare features, or hashed.

    The estimators take feature dicts as they are; this is for a minimum count or a fixed number of columns.

    Parameters
    ----------
    min_count : int, default=1
        Features that fewer nodes have are left out.
    n_hashed : int or None, default=None
        Put features into so many columns by a hash of their names.

    Attributes
    ----------
    feature_names_ : FeatureNames or None
        None where they are hashed.

    Examples
    --------
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "the"}]]
    >>> features = DictFeatures(min_count=2)
    >>> features.fit_transform(X).X.toarray().tolist(), features.feature_names_
    ([[1.0], [0.0], [1.0]], ('word=the',))
    """

    def __init__(self, min_count: int = 1, n_hashed: int | None = None) -> None:
        self.min_count = min_count
        self.n_hashed = n_hashed

    def fit(self, X: Any, y: Any = None) -> DictFeatures:
        """Learn the names of features that are frequent enough."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Examples:
        """Learn the names, and the same nodes as `Examples`."""
        check_counts(self.min_count, self.n_hashed)
        self.feature_names_: FeatureNames | None = None
        if self.n_hashed is None:
            matrix, names = encode_feature_dicts(X)
            enough = np.bincount(matrix.indices, minlength=len(names)) >= self.min_count
            self.feature_names_ = FeatureNames(name for name, keep in zip(names, enough.tolist()) if keep)
        return self.transform(X, y)

    def transform(self, X: Any, y: Any = None) -> Examples:
        """Nodes as `Examples` with the features that `fit` has kept."""
        check_is_fitted(self, "feature_names_")
        X = [list(nodes) for nodes in X]
        if self.feature_names_ is not None:
            return Examples.build(X, y, feature_names=self.feature_names_)
        found = Examples.build(X, y)
        n = int(self.n_hashed)  # type: ignore[arg-type]
        names = found.feature_names or ()
        target = np.fromiter((crc32(name.encode("utf-8", "surrogatepass")) % n for name in names), dtype=np.int32,
                             count=len(names))  # fmt: skip
        matrix = csr(found.X.data, target[found.X.indices], found.X.indptr, n)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return Examples(matrix, found.offsets, found.y)
