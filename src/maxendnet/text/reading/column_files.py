"""Column files as partitions of a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from maxendnet.data.examples import Examples
from maxendnet.text.features.templates import READY, Template
from maxendnet.text.features.token_features import TokenFeatures
from maxendnet.text.reading.columns import read_columns
from maxendnet.text.reading.errors import TextError
from maxendnet.utils.scikit_learn import clone


class ColumnFiles:
    """Column files that the workers of a Dask cluster read.

    Each file is a partition.

    Parameters
    ----------
    paths : list of str or path-like
        Files that all workers can read. A path that ends in ``.gz`` is decompressed.
    features : str or TokenFeatures, default="words"
        Name of a built-in template, the text of a template (see `read_template`), or `TokenFeatures`.
    label : int or None, default=-1
        Column of the labels. Negative numbers count from the last column. None means that there are no labels, for
        predictions.
    columns : list of int or None, default=None
        Columns of the features, in the order of the template. None means all columns except the labels.

    Examples
    --------
    >>> files = ColumnFiles(["/shared/a.txt", "/shared/b.txt"], features="chunks")
    >>> files
    ColumnFiles(2 files, features='chunks', label=-1)
    >>> L2CRF(backend=Dask(client)).fit(files)                  # doctest: +SKIP
    """

    columns: Sequence[int] | None
    label: int | None

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        features: str | TokenFeatures = "words",
        *,
        label: int | None = -1,
        columns: Sequence[int] | None = None,
    ) -> None:
        if isinstance(paths, (str, os.PathLike)) or not all(isinstance(path, (str, os.PathLike)) for path in paths):
            raise ValueError(f"paths must be a list of paths, got {paths!r}.")
        if not (label is None or (isinstance(label, int) and not isinstance(label, bool))):
            raise ValueError(f"label must be the number of a column or None, got {label!r}.")
        if not isinstance(features, (str, TokenFeatures)):
            raise ValueError(
                f"features must be one of {', '.join(READY)}, the text of a template, or TokenFeatures, got "
                f"{features!r}."
            )
        self.paths: list[str] = [os.path.abspath(path) for path in paths]
        self.features: TokenFeatures = TokenFeatures(features) if isinstance(features, str) else features
        if self.features.min_count > 1:
            raise ValueError(
                f"min_count={self.features.min_count} needs the tokens of all files, but each worker sees only its "
                "own files; use min_count=1, or write the examples of all files to a folder with Examples.write."
            )
        if self.features.template == "auto":
            raise ValueError(
                "template='auto' needs the tokens of all files, but each worker sees only its own files; pass "
                f"{', '.join(READY)}, or the text of a template."
            )
        if self.features.template not in READY and Template.parse(self.features.template).pair_text:
            raise ValueError(
                "the template has cells of label pairs (B01:%x[0,0]), whose features are numbered by the tokens of all "
                "files, but each worker sees only its own files; write lines U."
            )
        self.label, self.columns = label, columns

    def __repr__(self) -> str:
        template = self.features.template
        name = repr(template) if template in READY else "a template"
        return f"ColumnFiles({len(self.paths)} files, features={name}, label={self.label})"

    def read_file(self, path: str) -> Examples | None:
        """Return the examples of one file, or None if the file is empty."""
        content = read_columns(Path(path), empty=True)
        if not len(content):
            return None
        X, y = (content, None) if self.label is None else content.split(self.label)
        if self.columns is not None:
            if self.label is not None:
                same = [column for column in self.columns if (column - self.label) % content.n_columns == 0]
                if same:
                    raise TextError(f"{path}: column {same[0]} contains the labels; remove it from columns=.")
            X = content.select(self.columns)
        return clone(self.features).fit_transform(X, y)
