"""The spaCy component, in pipelines of the real package."""

from __future__ import annotations

import pytest
from test_tagger import corpus

from maxendnet.text import Tagger, TextError

spacy = pytest.importorskip("spacy", reason="needs spaCy (pip install 'maxendnet[spacy]')")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("spacy") / "names.medn"
    Tagger().fit(*corpus(40, 0)).save(path)
    return path


def texts(n, seed):
    return [" ".join(words) for words in corpus(n, seed)[0]]


@pytest.fixture
def nlp(model):
    nlp = spacy.blank("xx")
    nlp.add_pipe("maxendnet", config={"model": str(model)})
    return nlp


def test_entities_are_the_spans_of_the_tagger(nlp, model):
    tagger = Tagger.load(model)
    docs = list(nlp.pipe(texts(12, 1), batch_size=5))
    assert sum(len(doc.ents) for doc in docs) > 10
    for doc in docs:
        (spans,) = tagger.predict_spans([[token.text for token in doc]])
        assert [(ent.start, ent.end, ent.label_) for ent in doc.ents] == [span[:3] for span in spans]
        assert [ent._.score for ent in doc.ents] == pytest.approx([span.probability for span in spans])
        again = nlp(doc.text).ents
        assert [ent._.score for ent in again] == pytest.approx([ent._.score for ent in doc.ents])
        assert [(ent.text, ent.label_) for ent in again] == [(ent.text, ent.label_) for ent in doc.ents]


def test_sentences_are_labelled_one_by_one_without_white_space(model):
    nlp = spacy.blank("xx")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("maxendnet", config={"model": str(model)})
    words = [[*row, "."] for row in corpus(2, 1)[0]]
    doc = nlp("  \n ".join(map(" ".join, words)))
    assert len(list(doc.sents)) == 2 and any(token.is_space for token in doc)
    expected = Tagger.load(model).predict_spans(words)
    shown = [(ent.text, ent.label_) for ent in doc.ents]
    assert shown == [
        (" ".join(row[span.start : span.end]), span.type) for row, spans in zip(words, expected) for span in spans
    ]
    assert nlp("").ents == () and nlp("  ").ents == ()


def test_other_entities_remain_unless_they_overlap(model):
    nlp = spacy.blank("xx")
    words, tags = corpus(1, 1)
    outside = next(word for word, tag in zip(words[0], tags[0]) if tag == "O")
    name = next(word for word, tag in zip(words[0], tags[0]) if tag != "O")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "OTHER", "pattern": outside}, {"label": "OTHER", "pattern": name}])
    nlp.add_pipe("maxendnet", config={"model": str(model)})
    labels = {ent.text: ent.label_ for ent in nlp(" ".join(words[0])).ents}
    assert labels[outside] == "OTHER" and "OTHER" not in [label for text, label in labels.items() if name in text]


def test_columns_are_attributes_of_tokens(tmp_path):
    X, y = corpus(40, 0)
    tagger = Tagger().fit([list(zip(*row)) for row in zip(X, y)], y)
    tagger.save(tmp_path / "m")
    nlp = spacy.blank("xx")
    nlp.add_pipe("maxendnet", config={"model": str(tmp_path / "m")})
    words, tags = X[0], y[0]
    doc = nlp.make_doc(" ".join(words))
    for token, tag in zip(doc, tags):
        token.tag_ = tag
    (expected,) = tagger.predict_spans([list(zip(words, tags))])
    assert expected and [(ent.start, ent.end, ent.label_) for ent in nlp(doc).ents] == [span[:3] for span in expected]


def test_pipelines_are_saved_with_their_model(nlp, model, tmp_path):
    nlp.to_disk(tmp_path / "pipeline")
    moved = tmp_path / "gone.medn"
    config = (tmp_path / "pipeline" / "config.cfg").read_text()
    (tmp_path / "pipeline" / "config.cfg").write_text(config.replace(str(model), str(moved)))
    text = texts(1, 1)[0]
    expected = [(ent.text, ent._.score) for ent in nlp(text).ents]
    assert expected
    assert [(ent.text, ent._.score) for ent in spacy.load(tmp_path / "pipeline")(text).ents] == expected
    other = spacy.blank("xx")
    other.add_pipe("maxendnet")
    other.from_bytes(nlp.to_bytes())
    assert [(ent.text, ent._.score) for ent in other(text).ents] == expected


def test_a_missing_model_is_named():
    nlp = spacy.blank("xx")
    nlp.add_pipe("maxendnet", config={"model": "missing.medn"})
    with pytest.raises(TextError, match=r"'maxendnet' has no tagger: there is no model file 'missing\.medn'"):
        nlp("Ada")
