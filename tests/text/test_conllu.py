"""CoNLL-U files, compared with the package conllu."""

from __future__ import annotations

import pytest

from maxendnet.text import Tagger, TextError, read_conllu

TEXT = """\
# sent_id = 1
# text = It's # 1
1-2\tIt's\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tIt\tit\tPRON\tPRP\tCase=Nom\t3\tnsubj\t_\t_
2\t's\tbe\tAUX\tVBZ\t_\t3\tcop\t_\t_
3\t#\t#\tSYM\tNN\t_\t0\troot\t_\tSpaceAfter=No|NER=B-X
3.1\tis\tbe\tVERB\t_\t_\t_\t_\t_\t_

# sent_id = 2
1\tNew York\tNew York\tPROPN\tNNP\t_\t0\troot\t_\tNER=B-LOC

"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a.conllu").write_text(TEXT)
    return tmp_path / "a.conllu"


def test_words_and_labels_are_read(path):
    X, y = read_conllu(path)
    assert list(X) == [[("It",), ("'s",), ("#",)], [("New York",)]]
    assert y == [["PRON", "AUX", "SYM"], ["PROPN"]] and X.place(0, 2) == f"{path}:6"
    X, y = read_conllu(path, ["form", "xpos"], "misc:NER")
    assert X[0] == [("It", "PRP"), ("'s", "VBZ"), ("#", "NN")] and y == [["O", "O", "B-X"], ["B-LOC"]]
    assert read_conllu(path, labels=None)[1] is None
    tagger = Tagger(calibrate=False).fit(*read_conllu(path))
    assert tagger.predict(X.select([0])) == read_conllu(path)[1]


def test_a_sentence_of_empty_nodes_is_left_out(tmp_path):
    (tmp_path / "a").write_text(TEXT.replace("1\tNew", "0.1\tNew"))
    assert len(read_conllu(tmp_path / "a")[0]) == 1
    (tmp_path / "a").write_text(TEXT[TEXT.index("3.1") :][: -len(TEXT[TEXT.index("# sent_id = 2") :])])
    with pytest.raises(TextError, match="the file has no tokens"):
        read_conllu(tmp_path / "a")


def test_messages(path):
    with pytest.raises(TextError, match="has no column 'word'; its columns are id, form"):
        read_conllu(path, "word")
    with pytest.raises(TextError, match="2 columns; a CoNLL-U file has 10"):
        read_conllu(["a\tb"])


def test_the_words_are_those_of_the_package_conllu(path):
    conllu = pytest.importorskip("conllu", reason="needs conllu (pip install conllu)")
    sentences = [sentence.filter(id=lambda number: isinstance(number, int)) for sentence in conllu.parse(TEXT)]
    for field in ("form", "lemma", "upos", "xpos", "deprel"):
        X, y = read_conllu(path, field, field)
        assert X.column(0) == y == [[token[field] for token in sentence] for sentence in sentences]
