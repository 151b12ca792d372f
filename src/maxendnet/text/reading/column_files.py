"""Column files as partitions: which columns have features, which has labels, and by which template."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sklearn.base import clone

from maxendnet.data.examples import Examples
from maxendnet.text.features.templates import READY
from maxendnet.text.features.token_features import TokenFeatures
from maxendnet.text.reading.columns import read_columns
from maxendnet.text.reading.errors import TextError


class ColumnFiles:
    """Column files that workers of a Dask cluster read, each a partition, for `fit` and `predict` of an estimator.

    Parameters
    ----------
    paths : list of str or path-like
        Of files that every worker finds there. A path that ends in ``.gz`` is decompressed.
    features : str or TokenFeatures, default="words"
        The name of a ready template or the text of one, such as `read_template` returns; or `TokenFeatures`, with
        hashed names, gazetteers or clusters.
    label : int or None, default=-1
        The column of labels; negative numbers count from the last. None: there are no labels, for predictions.
    columns : list of int or None, default=None
        The columns of features, in the order of the template. None: all but that of the labels.

    Examples
    --------
    >>> files = ColumnFiles(["/shared/a.txt", "/shared/b.txt"], features="chunks")
    >>> files
    ColumnFiles(2 files, features='chunks', label=-1)
    >>> L2CRF(backend=Dask(client)).fit(files)                  # doctest: +SKIP
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        features: str | TokenFeatures = "words",
        *,
        label: int | None = -1,
        columns: Sequence[int] | None = None,
    ) -> None:
        if isinstance(paths, (str, os.PathLike)) or not all(isinstance(one, (str, os.PathLike)) for one in paths):
            raise ValueError(f"paths must be a list of paths, got {paths!r}.")
        if not (label is None or (isinstance(label, int) and not isinstance(label, bool))):
            raise ValueError(f"label must be the number of a column or None, got {label!r}.")
        if not isinstance(features, (str, TokenFeatures)):
            raise ValueError(
                f"features must be one of {', '.join(READY)}, the text of a template, or TokenFeatures, got "
                f"{features!r}."
            )
        self.paths = [os.path.abspath(one) for one in paths]
        self.features = TokenFeatures(features) if isinstance(features, str) else features
        if self.features.min_count > 1:
            raise ValueError(
                f"min_count={self.features.min_count} counts tokens of all files, which no worker sees; leave it out, "
                "or write the examples of all files to a folder with Examples.write."
            )
        if self.features.template == "auto":
            raise ValueError(
                "template='auto' goes by the tokens of all files, which no worker sees; name a template: "
                f"{', '.join(READY)}, or the text of one."
            )
        self.label, self.columns = label, columns

    def __repr__(self) -> str:
        template = self.features.template
        name = repr(template) if template in READY else "a template"
        return f"ColumnFiles({len(self.paths)} files, features={name}, label={self.label})"

    def read_file(self, path: str) -> Examples | None:
        """The examples of one file; None where it has none."""
        found = read_columns(Path(path), empty=True)
        if not len(found):
            return None
        labels, rest = None, found
        if self.label is not None:
            rest, labels = found.split(self.label)
        if self.columns is not None:
            same = [] if self.label is None else [c for c in self.columns if (c - self.label) % found.n_columns == 0]
            if same:
                raise TextError(f"{path}: column {same[0]} has the labels; give columns of features without it.")
            rest = found.select(self.columns)
        return clone(self.features).fit_transform(rest, labels)


__all__ = ["ColumnFiles"]
