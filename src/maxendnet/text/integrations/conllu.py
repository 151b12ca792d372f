"""CoNLL-U files of Universal Dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxendnet.data.ragged import offsets_of
from maxendnet.text.reading.columns import Columns, no_tokens, read_columns
from maxendnet.text.reading.errors import TextError

FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""Columns of a CoNLL-U file."""


def read_conllu(
    source: Any, tokens: str | Sequence[str] = "form", labels: str | None = "upos"
) -> tuple[Columns, list[list[str]] | None]:
    """Read sentences and labels from a CoNLL-U file.

    Comments, multiword tokens (such as ``1-2``) and empty nodes (such as ``1.1``) are left out.

    Parameters
    ----------
    source : path, open file, or iterable of lines
    tokens : str or list of str, default="form"
        Columns of the sentences: ``form``, ``lemma``, ``upos``, ``xpos``, ``feats``, ``deprel``, ...
    labels : str or None, default="upos"
        Column of the labels, or an attribute of the last column: ``misc:NER`` reads ``B-PER`` from ``NER=B-PER``, and
        ``O`` where there is no such attribute.

    Returns
    -------
    X : Columns
    y : list of lists of str, or None

    Examples
    --------
    >>> lines = ["# text = It's", "1-2\\tIt's" + 8 * "\\t_", "1\\tIt\\tit\\tPRON" + 6 * "\\t_",
    ...          "2\\t's\\tbe\\tAUX" + 5 * "\\t_" + "\\tNER=O"]
    >>> X, y = read_conllu(lines)
    >>> X[0], y
    ([('It',), ("'s",)], [['PRON', 'AUX']])
    """
    columns = read_columns(source, "\t", comment="#", docstart=False)
    if columns.n_columns != len(FIELDS):
        raise TextError(
            f"{columns.source}: {columns.n_columns} columns; a CoNLL-U file has {len(FIELDS)}: {', '.join(FIELDS)}."
        )
    is_token = np.array([number.isdecimal() for number in columns.cells[0]])
    rows = np.flatnonzero(is_token).tolist()
    if not rows:
        raise no_tokens(columns.source)
    lengths = np.add.reduceat(is_token.astype(np.int64), columns.offsets[:-1])
    offsets = offsets_of(lengths[lengths > 0])
    fields = [tokens] if isinstance(tokens, str) else list(tokens)
    cells = tuple([columns.cells[_number(field)][t] for t in rows] for field in fields)
    assert columns.lines is not None
    X = Columns(cells, offsets, columns.source, columns.lines[rows])
    if labels is None:
        return X, None
    field, colon, attribute = labels.partition(":")
    values = [columns.cells[_number(field)][t] for t in rows]
    if colon:
        values = [_attribute(value, attribute) for value in values]
    return X, Columns((values,), offsets).column(0)


def _number(field: str) -> int:
    if field not in FIELDS:
        raise TextError(f"a CoNLL-U file has no column {field!r}; its columns are {', '.join(FIELDS)}.")
    return FIELDS.index(field)


def _attribute(value: str, name: str) -> str:
    """Return an attribute of a cell such as ``SpaceAfter=No|NER=B-PER``, or ``O``."""
    pairs = (part.partition("=") for part in value.split("|"))
    return next((content for key, _, content in pairs if key == name), "O")
