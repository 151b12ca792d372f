"""Sentences from records and data frames."""

from __future__ import annotations

import numpy as np
import pytest

from maxendnet.text import Tagger, TextError, read_frame, read_records, tag_frame


class Names:
    names = ["O", "B-PER"]


class Sequence:
    feature = Names()


class Dataset(list):
    """Stand-in for ``datasets.Dataset``: records, and names of their tags."""

    features = {"tokens": object(), "ner_tags": Sequence()}


def test_records():
    X, y = read_records([{"tokens": ["Ada", "slept"], "tags": ["B-PER", "O"]}, {"tokens": [], "tags": []}])
    assert list(X) == [[("Ada",), ("slept",)], []] and y == [["B-PER", "O"], []]
    X, y = read_records([{"tokens": np.array(["Ada"]), "pos": ["NNP"]}], tokens=["tokens", "pos"])
    assert X[0] == [("Ada", "NNP")] and y is None


def test_a_data_set_knows_the_names_of_its_tags():
    records = Dataset([{"tokens": ["Ada", "slept"], "ner_tags": np.array([1, 0])}])
    assert read_records(records)[1] == [["B-PER", "O"]]
    assert read_records(records, names=["x", "y"])[1] == [["y", "x"]]


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        ([{"words": ["a"]}], {}, "record 0 has no field 'tokens'; it has 'words'"),
        ([{"tokens": "a b"}], {}, "record 0 field 'tokens' is a str; expected a list"),
        ([{"tokens": ["a"], "tags": ["O", "O"]}], {}, "record 0 has 1 tokens and 2 tags"),
        ([{"tokens": ["a"], "tags": [0]}], {}, "record 0 has the number 0 in 'tags'; pass the tag names"),
        (
            [{"tokens": ["a"], "tags": [2]}],
            {"names": ["O"]},
            "record 0 has the number 2 in 'tags', but there are 1 tag names",
        ),
        ([{"tokens": ["a"], "tags": [None]}], {}, "record 0 has the tag None"),
        ([{"tokens": ["a"], "pos": []}], {"tokens": ["tokens", "pos"]}, "1 entries in 'tokens' and 0 in 'pos'"),
        ([{"tokens": [3]}], {}, "sentence 0 token 0 is 3"),
        (["a"], {}, "records must be dicts"),
    ],
)
def test_messages(records, options, message):
    with pytest.raises(TextError, match=message):
        read_records(records, **options)


FRAME = {"s": [7, 7, 3, 7], "word": ["a", "b", "c", "d"], "pos": list("NVNV"), "tag": ["O", "B-X", "O", "I-X"]}
KINDS = {"dict": None, "pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}


def frames(kind):
    """Return the function that makes a frame of a package from a dict."""
    if kind == "dict":
        return lambda data: data
    return getattr(pytest.importorskip(kind, reason=f"needs {kind} (pip install {kind})"), KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_frames(kind):
    frame = frames(kind)(FRAME)
    X, y = read_frame(frame, "s", ["word", "pos"], "tag")
    assert list(X) == [[("a", "N"), ("b", "V"), ("d", "V")], [("c", "N")]] and y == [["O", "B-X", "I-X"], ["O"]]
    assert read_frame(frame, "s", "word")[1] is None
    with pytest.raises(TextError, match="the frame has no column 'nothing'; it has"):
        read_frame(frame, "nothing", "word")
    broken = frames(kind)({"s": ["a", None], "word": ["a", "b"]})
    with pytest.raises(TextError, match="row 1 has no value in the column 's'; fill it in"):
        read_frame(broken, "s", "word")
    with pytest.raises(TextError, match=r"row 1 has (None|nan) in the column 's'; tokens and tags must be strings"):
        read_frame(broken, "word", "s")


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_added_to_frames(kind):
    data = {"s": [2, 1, 2, 1], "word": ["Ada", "Bob", "met", "slept"]}
    frame = frames(kind)(data)
    tagger = Tagger().fit([["Ada", "met", "Bob"], ["Bob", "slept"]], [["B-PER", "O", "B-PER"], ["B-PER", "O"]])
    tagged = tag_frame(tagger, frame, "s", "word")
    assert type(tagged) is type(frame)
    assert read_frame(tagged, "s", "word", "label")[1] == [["B-PER", "O"], ["B-PER", "O"]]
    values = tagged["probability"]
    values = values.to_pylist() if kind == "pyarrow" else list(values)
    expected = tagger.predict_confidence([["Ada", "met"], ["Bob", "slept"]])
    assert values == [expected[0].tokens[0], expected[1].tokens[0], expected[0].tokens[1], expected[1].tokens[1]]
    with pytest.raises(TextError, match="the frame already has a column 'label'; pass another name"):
        tag_frame(tagger, tagged, "s", "word")
    again = tag_frame(tagger, tagged, "s", "word", "label2", "p2")
    assert read_frame(again, "s", "word", "label2")[1] == [["B-PER", "O"], ["B-PER", "O"]]


def test_other_objects_are_no_frames():
    pytest.importorskip("narwhals", reason="needs narwhals (pip install narwhals)")
    with pytest.raises(TextError, match=r"a frame must be a data frame of pandas or polars, .* got a list"):
        read_frame([1], "s", "word")
