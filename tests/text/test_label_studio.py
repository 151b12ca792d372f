"""Tasks of Label Studio: annotations to tags, predictions to tasks, and checks by its own package."""

from __future__ import annotations

import json

import pytest
from test_tagger import corpus

from maxendnet.text import Tagger, TextError, label_studio_tasks, read_columns, read_label_studio, tokenize

CONFIG = """
<View><Labels name="label" toName="text"><Label value="PER"/><Label value="LOC"/></Labels>
<Text name="text" value="$text"/></View>
"""


def region(start, end, kind, **more):
    return {"from_name": "label", "to_name": "text", "type": "labels", **more,
            "value": {"start": start, "end": end, "labels": [kind]}}  # fmt: skip


def task(text, *regions, **more):
    return {"id": 5, "data": {"text": text}, "annotations": [{"result": list(regions), **more}]}


@pytest.fixture(scope="module")
def tagger():
    return Tagger().fit(*corpus(40, 0))


def annotated(tasks):
    """Return tasks whose annotations are their predictions, as if they were accepted."""
    return [{**row, "id": i, "annotations": row["predictions"]} for i, row in enumerate(tasks)]


def test_predictions_are_read_back_as_the_tags_of_the_tagger(tagger, tmp_path):
    sentences, _ = corpus(12, 1)
    texts = ["\n".join(map(" ".join, sentences[k : k + 3])) for k in range(0, 12, 3)]
    tasks = label_studio_tasks(tagger, texts)
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(annotated(tasks)))
    X, y = read_label_studio(path)
    assert X.column(0) == sentences and y == tagger.predict(sentences)
    for text, row in zip(texts, tasks):
        (prediction,) = row["predictions"]
        assert all(text[r["value"]["start"] : r["value"]["end"]] == r["value"]["text"] for r in prediction["result"])
        lines = [[token.text for token in tokenize(line)] for line in text.split("\n")]
        probabilities = [span.probability for spans in tagger.predict_spans(lines) for span in spans]
        assert [r["score"] for r in prediction["result"]] == pytest.approx(probabilities, abs=1e-6)
        lowest = min(row.sequence for row in tagger.predict_confidence(lines))
        assert prediction["score"] == pytest.approx(lowest, abs=1e-6)
    assert label_studio_tasks(tagger, [""])[0]["predictions"][0]["result"] == []


def test_annotations_become_tags():
    text = "Ada Lovelace met\n\nCharles in London."
    tasks = [
        task(
            text, region(0, 13, "PER"), region(18, 25, "PER"), region(29, 35, "LOC"), {"type": "choices", "value": {}}
        ),
        {"data": {"text": "not annotated"}, "annotations": []},
        task("skipped", region(0, 7, "PER"), was_cancelled=True),
    ]
    X, y = read_label_studio(tasks)
    assert X.column(0) == [["Ada", "Lovelace", "met"], ["Charles", "in", "London", "."]]
    assert y == [["B-PER", "I-PER", "O"], ["B-PER", "O", "B-LOC", "O"]]
    assert read_label_studio(tasks, scheme="BIOES")[1][0] == ["B-PER", "E-PER", "O"]
    assert read_label_studio(tasks[:1], by="characters")[1][1][-4:] == ["I-LOC", "I-LOC", "I-LOC", "O"]
    two = task("Ada", region(0, 3, "PER"))
    two["annotations"].append({"result": [region(0, 3, "LOC")], "ground_truth": True})
    assert read_label_studio([two])[1] == [["B-LOC"]]


def test_spans_within_tokens_are_extended_with_a_warning():
    with pytest.warns(UserWarning, match="1 spans .* the first one is tasks: task 5 'da'"):
        assert read_label_studio([task("Ada slept", region(1, 3, "PER"))])[1] == [["B-PER", "O"]]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([{"text": "Ada", "label": []}], "tasks: task 0 has no 'data'; export the project as JSON"),
        ([{"data": {"body": "Ada"}, "annotations": [{}]}], r"task 0 has no text in data\['text'\]; pass the name"),
        ([task("Ada", region(0, 9, "PER"))], "task 5 has a region 0 to 9, but its text has 3 characters"),
        ([task("Ada", {"value": {"labels": ["PER"], "start": None}})], "task 5 has a region without start, end and"),
        ([task("Ada B", region(0, 5, "PER"), region(0, 3, "LOC"))], "task 5: .* overlaps"),
    ],
)
def test_messages(tasks, message):
    with pytest.raises(TextError, match=message):
        read_label_studio(tasks)


def test_files_that_are_not_json_are_refused(tmp_path):
    (tmp_path / "t.json").write_text("[1,\n2")
    with pytest.raises(TextError, match=r"t\.json:2: not valid JSON"):
        read_label_studio(tmp_path / "t.json")
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(TextError, match="expected a list of tasks"):
        read_label_studio(tmp_path / "t.json")


def test_label_studio_accepts_the_tasks(tagger):
    sdk = pytest.importorskip("label_studio_sdk.label_interface", reason="needs label-studio-sdk (pip install it)")
    interface = sdk.LabelInterface(CONFIG)
    for row in label_studio_tasks(tagger, [" ".join(words) for words in corpus(6, 1)[0]]):
        assert row["predictions"][0]["result"]
        assert interface.validate_prediction(row["predictions"][0])


def test_label_studio_exports_the_same_tags(tagger, tmp_path):
    converter = pytest.importorskip("label_studio_sdk.converter", reason="needs label-studio-sdk (pip install it)")
    tasks = annotated(label_studio_tasks(tagger, [" ".join(words) for words in corpus(6, 1)[0]]))
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(tasks))
    converter.Converter(CONFIG, str(tmp_path)).convert_to_conll2003(str(path), str(tmp_path / "out"), is_dir=False)
    theirs = read_columns(tmp_path / "out" / "result.conll")
    X, y = read_label_studio(path)
    assert theirs.column(0) == X.column(0) and theirs.column(-1) == y
