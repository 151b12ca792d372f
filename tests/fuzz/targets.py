"""Fuzz targets for atheris: the column reader, the model file reader, and the page parser.

    python tests/fuzz/targets.py columns -max_total_time=600

A target gets bytes and may end in a value or in the documented error; any other exception, a crash, or a difference
between two implementations is a finding. Arguments after the name of the target are those of libFuzzer. The number of
inputs that ended each way is written to ``build/fuzz/counts-NAME.json`` after every 100 inputs.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import types
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import atheris
import numpy as np
import safetensors.numpy

sys.path.insert(0, str(Path(__file__).parents[1]))

from forge import forged

from maxendnet import L2CRF, M3N, Chain, LapMEDN, ModelFileError, Tree, load
from maxendnet.estimators import file as model_file
from maxendnet.models import container
from maxendnet.text import TextError, read_columns
from maxendnet.text.reading import columns as reading
from maxendnet.text.reading.text_files import text_of
from maxendnet.web.pages.page import PageError, read_page

COUNTS: Counter[str] = Counter()
SCRATCH = Path(tempfile.mkdtemp())


# ---- columns --------------------------------------------------------------------------------------------------------

COLUMN_SEEDS = [
    b"the D\ndog N\n\nruns V\n", b"a\tb\tc\nd\te\tf\n", b"-DOCSTART- -X- O\n\nEU NNP B-ORG\n", b"# id\nx y\n",
    "é ü\n\n\u3000 z\n".encode(), b"\xff\xfea\x00 \x00b\x00", b"\xef\xbb\xbfa b\r\nc d\r\n", b"a b\n\x00 c\n", b"\n\n",
]  # fmt: skip


def columns(data: bytes) -> None:
    """Read bytes as a column file; the parser in C++ and the one in Python must agree."""
    options = data[:1] or b"\0"
    separator = (None, "\t", " ", ",")[options[0] % 4]
    comment, docstart = ("#" if options[0] & 4 else None), bool(options[0] & 8)
    source = io.BytesIO(data[1:])
    source.name = "fuzz"
    try:
        table = read_columns(source, separator=separator, comment=comment, docstart=docstart)
    except TextError:
        COUNTS["TextError"] += 1
        return
    COUNTS["read"] += 1
    lengths = {len(sentence) for sentences in zip(*table) for sentence in zip(*sentences)}
    assert len(lengths) <= 1, "sentences have different numbers of columns"
    text, name = text_of(io.BytesIO(data[1:]), "fuzz")
    if separator is not None and comment is None:
        fast = reading._parse_by_kernel(text, name, separator, docstart, 1)
        if fast is not None:
            slow = reading.ColumnParser(name, separator, docstart=docstart)._parse_slowly(text, separator)
            assert [list(map(list, c)) for c in fast] == [list(map(list, c)) for c in slow], "the parsers differ"
            COUNTS["compared"] += 1


# ---- model files ----------------------------------------------------------------------------------------------------

X, Y = [np.eye(3), np.ones((2, 3))], [["a", "b", "a"], ["b", "b"]]


def model_seeds() -> list[bytes]:
    """Bodies of model files: safetensors with a JSON header."""
    models = [
        L2CRF(tol=0.1).fit(X, Y), M3N(tol=0.5, structure=Chain(order=2)).fit(X, Y), LapMEDN(tol=0.5).fit(X, Y),
        M3N(tol=0.5, structure=Chain(pairs="seen", bias=True)).fit([[["u"], ["v", "w"]]], [["a", "b"]]),
        M3N(tol=0.5, structure=Tree(siblings=True)).fit([(np.eye(3), [(0, 1), (0, 2)])], [["a", "b", "a"]]),
    ]  # fmt: skip
    bodies = []
    for model in models:
        model.save(SCRATCH / "seed.medn")
        header, arrays = container.read_sealed(SCRATCH / "seed.medn", model_file.KIND)
        bodies.append(safetensors.numpy.save(arrays, {container.METADATA: json.dumps(header | {"format": 2})}))
    return bodies


def model_files(data: bytes) -> None:
    """Load a model file with a valid checksum and this body, and predict."""
    path = SCRATCH / "fuzz.medn"
    version = (2).to_bytes(4, "little")
    path.write_bytes(model_file.MAGIC + version + container._digest(version, data) + data)
    try:
        model = load(path)
    except ModelFileError:
        COUNTS["ModelFileError"] += 1
        return
    COUNTS["loaded"] += 1
    n_features = model.n_features_in_
    if n_features > 1000 or model.feature_names_ is not None:
        return
    x = np.ones((3, n_features))
    example = (x, [(0, 1), (0, 2)]) if type(model.model_.structure).__name__ == "Tree" else x
    try:
        marginals = model.predict_marginals([example])
    except ValueError:
        COUNTS["refused to predict"] += 1
        return
    assert np.isfinite(np.concatenate(list(marginals))).all(), "a probability is NaN"
    COUNTS["predicted"] += 1


# ---- pages ----------------------------------------------------------------------------------------------------------

PAGE_SEEDS = [
    b"<html><body><p class='a b'>x &amp; y<b>z</b></p></body></html>", b"<table><tr><td>1<td>2</table>",
    b"<script type='application/ld+json'>{\"@type\":\"Product\",\"name\":\"a\"}</script>", b"<select><option>a",
    b"<meta charset=latin-1><p>\xe9", "<p>é".encode("utf-16"), b"<svg><title>a</svg>", b"<!--a--><a href='b'>c</a>",
    b"<template><p>a</template><p itemprop=price content=3>", b"%PDF-1.4",
]  # fmt: skip


def pages(data: bytes) -> None:
    """Read a page; its tree must be consistent."""
    try:
        page = read_page(data)
    except PageError as error:
        assert "crashed" not in str(error) and "failed on this page" not in str(error), error
        COUNTS["PageError"] += 1
        return
    COUNTS["read"] += 1
    n = len(page)
    assert np.all(page.parents[1:] < np.arange(1, n)) and np.all(page.ends[:n] <= n), "the tree is inconsistent"


TARGETS = {"columns": (columns, lambda: COLUMN_SEEDS), "model_files": (model_files, model_seeds),
           "pages": (pages, lambda: PAGE_SEEDS)}  # fmt: skip


def forged_body(data: bytes, max_size: int, seed: int) -> bytes:
    """Return a model file body with a changed number, name, array or shape, or with changed bytes."""
    try:
        arrays = safetensors.numpy.load(data)
        length = int.from_bytes(data[:8], "little")
        header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][container.METADATA])
        header, arrays, _ = forged(header, arrays, seed, [key for key in header if key != "format"])
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        body = safetensors.numpy.save(arrays, {container.METADATA: json.dumps(header)})
    except Exception:
        body = b""
    return body if 0 < len(body) <= max_size else atheris.Mutate(data, max_size)


def instrument(*prefixes: str) -> None:
    """Count branches in the modules with these names; the import hook of atheris does not see editable packages."""
    for name, module in list(sys.modules.items()):
        if name.startswith(prefixes):
            for owner in (module, *(value for value in vars(module).values() if isinstance(value, type))):
                for function in list(vars(owner).values()):
                    function = getattr(function, "__func__", function)
                    if isinstance(function, types.FunctionType) and function.__module__ == name:
                        atheris.instrument_func(function)


def counted(name: str, target: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Return the target, which writes the counts now and then."""
    path = Path("build/fuzz") / f"counts-{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)

    def run(data: bytes) -> None:
        COUNTS["inputs"] += 1
        target(data)
        if COUNTS["inputs"] % 100 == 0:
            path.write_text(json.dumps(COUNTS) + "\n")

    return run


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    target, seeds = TARGETS[name]
    corpus = Path(os.environ.get("FUZZ_CORPUS", SCRATCH)) / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"seed-{number}").write_bytes((b"\x01" if name == "columns" else b"") + seed)
    warnings.simplefilter("ignore")
    instrument("maxendnet.text.reading", "maxendnet.models", "maxendnet.estimators", "maxendnet.web.pages")
    options = {"custom_mutator": forged_body} if name == "model_files" else {}
    atheris.Setup([sys.argv[0], *arguments, str(corpus)], counted(name, target), **options)
    atheris.Fuzz()
