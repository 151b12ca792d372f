"""Data frames of pandas, polars, PyArrow and other packages, by narwhals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maxendnet.text.reading.columns import Columns
from maxendnet.text.reading.errors import TextError


def read_frame(
    frame: Any, sequence: str, tokens: str | Sequence[str], tags: str | None = None
) -> tuple[Columns, list[list[str]] | None]:
    """Read sentences and tags from a data frame with a row for each token.

    Parameters
    ----------
    frame : data frame of pandas or polars, PyArrow table, or dict of lists
        Frames other than dicts need narwhals, which supports more packages.
    sequence : str
        Column that identifies the sentence of each token. Sentences are in order of first appearance, tokens in the
        order of their rows.
    tokens : str or list of str
        Name of the token column, or of several columns.
    tags : str, optional
        Name of the tag column.

    Returns
    -------
    X : Columns
    y : list of lists of str, or None

    Examples
    --------
    >>> frame = {"sentence": [1, 1, 2], "word": ["Ada", "slept", "Stop"], "tag": ["B-PER", "O", "O"]}
    >>> X, y = read_frame(frame, "sentence", "word", "tag")
    >>> X[0], y
    ([('Ada',), ('slept',)], [['B-PER', 'O'], ['O']])
    """
    table = _table_of(frame)
    fields = [tokens] if isinstance(tokens, str) else list(tokens)
    rows = _rows_of_sentences(table, sequence)
    cells = {field: _texts(table, field) for field in [*fields, *([] if tags is None else [tags])]}
    X = Columns.of([[tuple(cells[field][t] for field in fields) for t in sentence] for sentence in rows])
    return X, None if tags is None else [[cells[tags][t] for t in sentence] for sentence in rows]


def tag_frame(
    tagger: Any, frame: Any, sequence: str, tokens: str | Sequence[str], label: str = "label",
    probability: str = "probability",
) -> Any:  # fmt: skip
    """Return a data frame with the labels of its tokens and their probabilities.

    Parameters
    ----------
    tagger : Tagger
    frame, sequence, tokens : as for `read_frame`
    label, probability : str
        Names of the new columns.

    Returns
    -------
    data frame
        Of the package of ``frame``, with its rows in their order.

    Examples
    --------
    >>> from maxendnet.text import Tagger
    >>> tagger = Tagger().fit([["Ada", "met", "Bob"]], [["B-PER", "O", "B-PER"]])
    >>> tag_frame(tagger, {"sentence": [1, 1], "word": ["Bob", "met"]}, "sentence", "word")["label"]
    ['B-PER', 'O']
    """
    table = _table_of(frame)
    for name in (label, probability):
        if name in table:
            raise TextError(f"the frame already has a column {name!r}; pass another name: label=, probability=.")
    X, _ = read_frame(frame, sequence, tokens)
    labels: list[Any] = [None] * X.n_tokens
    probabilities = [0.0] * X.n_tokens
    for sentence, prediction in zip(_rows_of_sentences(table, sequence), tagger.predict_confidence(X)):
        for t, name, p in zip(sentence, prediction.labels, prediction.tokens.tolist()):
            labels[t], probabilities[t] = name, p
    return table.with_columns({label: labels, probability: probabilities})


class _Lists(dict[str, Any]):
    """Dict of lists, as a frame."""

    def with_columns(self, columns: Mapping[str, list[Any]]) -> dict[str, Any]:
        return {**self, **columns}


class _Frame:
    """Data frame of any package that narwhals supports."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def __iter__(self) -> Any:
        return iter(self.frame.columns)

    def __contains__(self, name: str) -> bool:
        return name in self.frame.columns

    def __getitem__(self, name: str) -> Any:
        return self.frame[name].to_list()

    def with_columns(self, columns: Mapping[str, list[Any]]) -> Any:
        import narwhals

        series = [
            narwhals.new_series(name, values, backend=self.frame.implementation) for name, values in columns.items()
        ]
        return self.frame.with_columns(*series).to_native()


def _table_of(frame: Any) -> Any:
    """Return a frame with the same methods for all packages."""
    if isinstance(frame, Mapping):
        return _Lists(frame)
    try:
        import narwhals
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "data frames need narwhals: pip install 'maxendnet[frames]'; or pass a dict of lists."
        ) from None
    try:
        return _Frame(narwhals.from_native(frame, eager_only=True))
    except TypeError:
        raise TextError(
            f"a frame must be a data frame of pandas or polars, a PyArrow table or a dict of lists, got a "
            f"{type(frame).__name__}."
        ) from None


def _rows_of_sentences(table: Any, sequence: str) -> list[list[int]]:
    """Return the rows of each sentence."""
    rows: dict[Any, list[int]] = {}
    for t, key in enumerate(_column(table, sequence)):
        if key is None or key != key:
            raise TextError(
                f"row {t} has no value in the column {sequence!r}; fill it in, for instance with "
                f"frame[{sequence!r}].ffill() if only the first token of a sentence has a value."
            )
        rows.setdefault(key, []).append(t)
    return list(rows.values())


def _texts(table: Any, name: str) -> list[str]:
    cells = _column(table, name)
    wrong = next((t for t, cell in enumerate(cells) if not isinstance(cell, str)), None)
    if wrong is not None:
        raise TextError(f"row {wrong} has {cells[wrong]!r} in the column {name!r}; tokens and tags must be strings.")
    return cells


def _column(table: Any, name: str) -> list[Any]:
    if name not in table:
        raise TextError(f"the frame has no column {name!r}; it has {list(table)}.")
    return list(table[name])
