"""CRF++ templates: parsing and errors."""

from __future__ import annotations

import pytest

from maxendnet.text import TextError, read_template
from maxendnet.text.features.templates import READY, Macro, Template


def test_a_template_is_read():
    template = Template.parse("# words\nU00:%x[-2,0]\n\n U05:%x[-1,0]/%x[0,1]x \nUbias\nB\n")
    assert template.patterns[0].macros == (Macro(-2, "0"),) and template.patterns[0].texts == ("U00:", "")
    assert template.patterns[1].texts == ("U05:", "/", "x")
    assert template.patterns[2].macros == ()
    assert template.bigram and template.reach == 2 and template.columns == ["0", "1"]


def test_without_b_labels_are_independent():
    assert not Template.parse("U00:%x[0,0]").bigram
    assert Template.parse("U00:%x[0,0]\nB00:").bigram


def test_lines_b_with_cells_are_a_template_of_pairs():
    template = Template.parse("U00:%x[0,0]\n B01:%x[-1,0]/%x[0,lower] \nB02:%x[0,1]\nB")
    assert template.pair_text == "UB01:%x[-1,0]/%x[0,lower]\nUB02:%x[0,1]\n" and template.bigram
    assert template.columns == ["0"] and len(template.patterns) == 1
    assert Template.parse("U00:%x[0,0]\nB01:%x[0,0]").bigram


@pytest.mark.parametrize("name", READY)
def test_built_in_templates_are_valid(name):
    template = Template.parse(READY[name])
    assert template.bigram and len({pattern.texts[0] for pattern in template.patterns}) == len(template.patterns)


def test_the_chunking_template_is_that_of_crfpp():
    assert len(Template.parse(READY["chunks"]).patterns) == 19


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("U00:%x[0,0]\nV01:x", "^t:2: 'V01:x' does not begin with U, B or #"),
        ("U00:%x[0]", r"^t:1: 'U00:%x\[0\]' has an invalid macro; write %x\[row,column\]"),
        ("U00:%x[a,0]", "^t:1: .* has an invalid macro"),
        ("U00:%x[0,0", "^t:1: .* has an invalid macro"),
        ("U00:%x[999,0]", "^t:1: .* is more than 100 tokens away"),
        ("U00:%x[9999999999999999999999,0]", "^t:1: .* is more than 100 tokens away"),
        ("U00:%x[0,0]\nB01:%x[0]", "^t:2: .* has an invalid macro"),
        ("# nothing", "^t:1: no line begins with U"),
        (3, "^t:1: a template must be a string, got a int"),
    ],
)
def test_messages(text, message):
    with pytest.raises(TextError, match=message):
        Template.parse(text, "t")


def test_files(tmp_path):
    (tmp_path / "t").write_text("U00:%x[0,0]\r\nB\r\n")
    assert Template.parse(read_template(tmp_path / "t")).bigram
    (tmp_path / "t").write_text("U00:%x[0,0]\nX")
    with pytest.raises(TextError, match=r"t:2: 'X' does not begin with"):
        read_template(tmp_path / "t")
