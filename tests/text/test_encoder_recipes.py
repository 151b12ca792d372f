"""The recipes of docs/text.md for encoders run as they are written."""

from __future__ import annotations

import re
import sys
import textwrap
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from maxendnet.text import Tagger

PAGE = (Path(__file__).parents[2] / "docs/text.md").read_text()
X = [["Ada", "met", "Bob"], ["Bob", "slept"], ["We", "met", "Ada"]] * 2
Y = [["B-PER", "O", "B-PER"], ["B-PER", "O"], ["O", "O", "B-PER"]] * 2


def recipe(title, **names):
    """Run the code below a bold title, and return its names."""
    block = re.search(rf"\*\*{title}\*\*.*?\n\n((?:    .*\n|\n)+)", PAGE)
    names |= {"Tagger": Tagger, "X": X, "y": Y}
    exec(textwrap.dedent(block[1]), names)
    return names


def check(names, width):
    """The vectors are features of the tagger beside its template."""
    tagger, encoder = names["tagger"], names["encoder"]
    n_columns = sum(name.startswith("encoder[") for name in tagger.features_.feature_names_)
    assert 0.8 * width < n_columns <= width  # columns without weights are dropped
    rows = encoder(["Ada", "slept", "unseen"])
    assert rows.shape == (3, width) and np.abs(rows).max() <= 2 and np.linalg.matrix_rank(rows) == 3
    assert tagger.predict(X) == Y
    assert len(tagger.predict_spans([["unseen", "met", "Bob"]])) == 1


def test_word_pieces_of_a_package():
    pytest.importorskip("wordllama", reason="needs wordllama (pip install wordllama)")
    names = recipe("A small encoder from PyPI.")
    check(names, 256)
    one, two = names["encoder"](["Ada", "Lovelace"]), names["encoder"](["Ada"])
    np.testing.assert_allclose(one[0], two[0])


class Pieces(dict):
    """Encoding of transformers: pieces of two letters between special tokens, at most 9 pieces."""

    def __init__(self, words):
        pieces = [(word[k : k + 2], i) for i, word in enumerate(words) for k in range(0, len(word), 2)]
        pieces = [*[("[CLS]", None), *pieces][:8], ("[SEP]", None)]
        super().__init__(pieces=[text for text, _ in pieces])
        self.owners = [owner for _, owner in pieces]

    def word_ids(self):
        return self.owners


def encode(pieces):
    """Return states with one row per piece, which depend on the piece."""
    rows = np.array([np.random.default_rng(list(piece.encode())).normal(size=5) for piece in pieces])
    return SimpleNamespace(last_hidden_state=[SimpleNamespace(numpy=lambda: rows)])


@pytest.fixture
def transformers(monkeypatch):
    """The interface of torch and transformers that the recipe uses."""
    encode.eval = lambda: encode
    tokenizer = lambda words, **options: Pieces(words)  # noqa: E731
    for name, content in {
        "torch": {"no_grad": nullcontext},
        "transformers": {
            "AutoTokenizer": SimpleNamespace(from_pretrained=lambda directory: tokenizer),
            "AutoModel": SimpleNamespace(from_pretrained=lambda directory: encode),
        },
    }.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)


def test_pieces_of_a_transformer_are_averaged_by_word(transformers):
    names = recipe("A transformer encoder.", directory="model")
    check(names, 5)
    rows = names["encoder"](["Adas", "Bo"])
    states = encode(["Ad", "as", "Bo"]).last_hidden_state[0].numpy()
    expected = np.array([states[:2].mean(axis=0), states[2]])
    np.testing.assert_allclose(rows, expected / np.abs(expected).max())
    assert not names["encoder"](["abcdefgh", "abcdefgh", "late"])[2].any()
