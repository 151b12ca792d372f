"""Sentences and tags from records, as in Hugging Face data sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from maxendnet.text.reading.columns import Columns
from maxendnet.text.reading.errors import TextError

TAGS = ("tags", "ner_tags", "labels", "pos_tags", "chunk_tags")


def read_records(
    records: Iterable[Mapping[str, Any]],
    tokens: str | Sequence[str] = "tokens",
    tags: str | None = None,
    names: Sequence[str] | None = None,
) -> tuple[Columns, list[list[str]] | None]:
    """Read sentences and tags from records, as in Hugging Face data sets.

    Each record contains a list of tokens and, optionally, a list of tags.

    Parameters
    ----------
    records : iterable of dicts
        A list, a ``datasets.Dataset``, or parsed lines of JSON.
    tokens : str or list of str, default="tokens"
        Name of the token field, or of several fields, one for each column.
    tags : str or None, default=None
        Name of the tag field. By default the first of ``tags``, ``ner_tags``, ``labels``, ``pos_tags`` and
        ``chunk_tags`` that the records contain.
    names : list of str, optional
        Names of numeric tags. They are not needed for a ``datasets.Dataset``, which contains them.

    Returns
    -------
    X : Columns
    y : list of lists of str, or None
        None if the records have no tags.

    Examples
    --------
    >>> records = [{"tokens": ["Ada", "slept"], "ner_tags": [1, 0]}]
    >>> X, y = read_records(records, names=["O", "B-PER"])
    >>> X[0], y
    ([('Ada',), ('slept',)], [['B-PER', 'O']])
    """
    rows = list(records)
    fields = [tokens] if isinstance(tokens, str) else list(tokens)
    if not all(isinstance(record, Mapping) for record in rows):
        raise TextError("records must be dicts, each with a list of tokens.")
    if tags is None:
        tags = next((name for name in TAGS if rows and name in rows[0]), None)
    names = names if names is not None else _names_of(records, tags)
    sentences, labels = [], []
    for i, record in enumerate(rows):
        for field in [*fields, *([tags] if tags is not None else [])]:
            if field not in record:
                raise TextError(f"record {i} has no field {field!r}; it has {', '.join(map(repr, record))}.")
        cells = [_list(record[field], f"record {i} field {field!r}") for field in fields]
        for field, column in zip(fields, cells):
            if len(column) != len(cells[0]):
                raise TextError(
                    f"record {i} has {len(cells[0])} entries in {fields[0]!r} and {len(column)} in {field!r}."
                )
        sentences.append(list(zip(*cells)) if len(cells) > 1 else cells[0])
        if tags is not None:
            sentence_tags = [_name(tag, names, i, tags) for tag in _list(record[tags], f"record {i} field {tags!r}")]
            if len(sentence_tags) != len(cells[0]):
                raise TextError(
                    f"record {i} has {len(cells[0])} tokens and {len(sentence_tags)} tags; expected one tag per token."
                )
            labels.append(sentence_tags)
    return Columns.of(sentences), labels if tags is not None else None


def _names_of(records: Any, tags: str | None) -> list[str] | None:
    """Return the tag names of a ``datasets.Dataset``, or None if there are none."""
    feature = getattr(records, "features", {})
    feature = feature.get(tags) if isinstance(feature, Mapping) else None
    return getattr(getattr(feature, "feature", feature), "names", None)


def _name(tag: Any, names: Sequence[str] | None, i: int, field: str) -> str:
    if isinstance(tag, str):
        return tag
    if isinstance(tag, (int, np.integer)) and not isinstance(tag, bool):
        if names is None:
            raise TextError(f"record {i} has the number {tag} in {field!r}; pass the tag names: names=[...].")
        if 0 <= tag < len(names):
            return names[int(tag)]
        raise TextError(f"record {i} has the number {tag} in {field!r}, but there are {len(names)} tag names.")
    raise TextError(f"record {i} has the tag {tag!r}; tags must be strings, or numbers with names=[...].")


def _list(value: Any, where: str) -> list[Any]:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (str, bytes)) or not isinstance(value, (list, tuple)):
        raise TextError(f"{where} is a {type(value).__name__}; expected a list with an entry for each token.")
    return list(value)
