"""Features of the text of a leaf: shape, words, title, neighbouring texts, and statistics of the site."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise

from maxendnet.web.fields.patterns import PATTERNS
from maxendnet.web.views.view import CACHE_SIZE, Names, View, fold, log2_bin

STEM_CHARS = 5  # length of the prefix that serves as the stem of a word
WORD = re.compile(r"[^\W\d_]+|\d+|[$€£%#@]")
DIGIT = re.compile(r"\d")
SHAPES = ((re.compile(r"[A-Z]"), "A"), (re.compile(r"[a-z]"), "a"), (DIGIT, "0"))
RUN = re.compile(r"(.)\1+")


def text_shape(view: View) -> Names:
    """Return features of the length, shape and patterns of every text, and of its shares of digits and capitals."""
    return [
        ["image", "image_with_text" if text else "image_without_text"]
        if image
        else [*_shape(text[:400]), f"attribute={name}"]
        if name
        else _shape(text[:400])
        for text, image, name in zip(view.texts, view.images, view.attributes)
    ]


@lru_cache(maxsize=CACHE_SIZE)
def _patterns(text: str) -> list[str]:
    return [name for name, pattern in PATTERNS.items() if pattern.search(text)]


def _kind(letter: str) -> str:
    return "A" if letter.isupper() else "0" if letter.isdigit() else "a" if letter.isalpha() else letter


@lru_cache(maxsize=CACHE_SIZE)
def _shape(text: str) -> list[str]:
    n_words = text.count(" ") + 1
    letters = max(1, len(text))
    shape = text[:40]
    for pattern, letter in SHAPES:
        shape = pattern.sub(letter, shape)
    shape = RUN.sub(r"\1", shape)[:16]
    names = [
        f"length={log2_bin(len(text))}",
        f"words={n_words if n_words < 5 else log2_bin(n_words) + 3}",
        f"shape={shape}",
        f"digits={round(4 * sum(map(str.isdigit, text)) / letters)}",
        f"capitals={round(4 * sum(map(str.isupper, text)) / letters)}",
        f"first={_kind(text[:1])}",
    ]
    if n_words > 1 and text.istitle():
        names.append("title_case")
    return names + [f"is={name}" for name in _patterns(text[:200])]


def text_words(view: View) -> Names:
    """Return the words and word pairs of every text, and its first and last word."""
    return [_word_names(text[:200]) for text in view.texts]


@lru_cache(maxsize=CACHE_SIZE)
def _word_names(text: str) -> list[str]:
    words = WORD.findall(DIGIT.sub("0", text.lower()))[:16]
    names = [f"word={word}" for word in dict.fromkeys(words)]
    names += [f"pair={a}_{b}" for a, b in pairwise(words[:8])]
    if words:
        names += [f"first_word={words[0]}", f"last_word={words[-1]}"]
    return names


def run_text(view: View) -> Names:
    """Return the shape of the word to which a leaf belongs, and the position of the leaf in its run."""
    word, run = view.runs.word, view.runs.run
    joined: dict[int, str] = {}
    for k, text in enumerate(view.texts):
        joined[word[k]] = joined.get(word[k], "") + text
    in_word, in_run = Counter(word), Counter(run)
    n_before: Counter[int] = Counter()  # number of previous leaves of each run
    out = []
    for k in range(len(view)):
        names = []
        if in_word[word[k]] > 1:
            names += [f"touching {name}" for name in _shape(joined[word[k]][:400])]
        if in_run[run[k]] > 1:
            n = n_before[run[k]]
            n_before[run[k]] += 1
            n_after = in_run[run[k]] - 1 - n
            names += [f"run_from={min(n, 4)}", f"run_to={min(n_after, 4)}", f"run={min(in_run[run[k]], 5)}"]
        out.append(names)
    return out


def title_overlap(view: View) -> Names:
    """Return the overlap of every text with the page's title and headings, and its occurrences on the page."""
    words_of_title = _words(view.page.title)
    title, joined = set(words_of_title), " ".join(words_of_title)
    tags = [view.page.tags[element] for element in view.elements]
    headings = [_word_set(text[:400]) for text, tag in zip(view.texts, tags) if tag == "h1"][:5]
    anchor = _anchor(view, title)
    out = []
    for k, text in enumerate(view.texts):
        word_set = _word_set(text[:400])
        names = [f"times={min(3, view.on_page[view.folded[k]])}"]
        if anchor is not None:
            side = "before" if k < anchor else "after"
            names.append(f"{side}_heading={log2_bin(abs(k - anchor))}" if k != anchor else "heading")
        if word_set and title:
            shared = len(word_set & title)
            if shared:
                names += [f"overlap={round(4 * shared / len(word_set))}", f"cover={round(4 * shared / len(title))}"]
                if shared == len(word_set):
                    names.append(f"in_title={log2_bin(len(word_set))}")
                    words = _words(text)
                    if joined.startswith(" ".join(words)):
                        names.append("starts_title")
                        names.append(f"starts_title={log2_bin(len(word_set))}")
                    elif f" {' '.join(words)} " in f" {joined} ":
                        names.append("inside_title")
            if not all(word_set.isdisjoint(heading) for heading in headings):
                best = max(len(word_set & h) / max(1, len(word_set | h)) for h in headings)
                names.append(f"like_heading={round(4 * best)}")
        out.append(names)
    return out


def _anchor(view: View, title: set[str]) -> int | None:
    """Return the leaf most similar to the title, with a bonus for headings."""
    best, best_leaf = 0.0, None
    for k, text in enumerate(view.texts):
        if len(text) < 200 and not title.isdisjoint(word_set := _word_set(text[:400])):
            tag = view.page.tags[view.elements[k]]
            similarity = len(word_set & title) / len(word_set | title)
            similarity += 0.3 if tag == "h1" else 0.15 if tag in ("h2", "h3") else 0.0
            if similarity > best:
                best, best_leaf = similarity, k
    return best_leaf


def site_variation(view: View) -> Names:
    """Return the share of the site's pages that contain a text, and the variation of the texts at its place."""
    facts = view.facts
    if facts is None or facts.n_pages < 2:
        return [["alone"] for _ in range(len(view))]
    out = []
    n = facts.n_pages
    for k in range(len(view)):
        n_with_place = facts.pages_with_place[view.places[k]]
        text = _share(facts.pages_with_text[view.folded[k]], n, "one", "all")
        place = _share(n_with_place, n, "one", "all")
        change = _share(facts.texts_at_place[view.places[k]], n_with_place, "none", "each")
        names = [f"text_on={text}", f"place_on={place}", f"varies={change}", f"on_varies={text}_{place}_{change}"]
        if view.is_fixed(k):
            names.append("fixed")
        out.append(names)
    return out


def _share(count: int, total: int, least: str, most: str) -> str:
    """Return the bin of a share: ``least`` for a count of 1, ``most`` from 90 %, otherwise its quarter."""
    return least if count <= 1 else most if count >= 0.9 * total else f"{min(3, int(4 * count / total))}"


def label_text(view: View) -> Names:
    """Return captions of every leaf: the text before it, the head of its row, the text before a colon in it."""
    out = []
    folded = ["^", *(text[:30] for text in view.folded), "$"]
    colon_before = False
    for k, text in enumerate(view.texts):
        head, colon, _ = text.partition(":")
        prefix = head.lower() if colon and 0 < len(head) < 30 else ""
        names = _label_names(folded[k], view.captions[k], view.row_heads[k], prefix, colon_before and not prefix)
        out.append([*names, f"after={folded[k + 2]}"])
        colon_before = text.endswith(":")
    return out


@lru_cache(maxsize=CACHE_SIZE)
def _label_names(before: str, caption: str, row_head: str, prefix: str, announced: bool) -> list[str]:
    names = [f"before={before}"]
    for source, text in (("caption", caption), ("row", row_head)):
        if text:
            names.append(f"{source}={text[:30]}")
            names += [f"{source}_word={word}" for word in text.split()[:4]]
    heads = [caption, row_head]
    if prefix:
        names.append(f"own={prefix.strip()}")
        heads.append(prefix)
    elif announced:
        names += [f"announced={word}" for word in before.split()[:4]]
        names.append("announced")
        heads.append(before)
    # also without the place of the caption, and as stems: sites differ in it, and in "publisher" or "published by"
    for word in dict.fromkeys(word for text in heads for word in text.split()[:4]):
        names.append(f"any={word}")
        if len(word) > STEM_CHARS:
            names.append(f"stem={word[:STEM_CHARS]}")
    return names


def neighbours(view: View) -> Names:
    """Return tags, lengths, patterns and words of the two leaves before and after every leaf."""
    tags = view.page.tags
    brief = [_brief(tags[e], text[:400], image) for e, text, image in zip(view.elements, view.texts, view.images)]
    none: list[list[str]] = [[], [], [], []]
    padded = [none, none, *brief, none, none]
    return [padded[k][0] + padded[k + 1][1] + padded[k + 3][2] + padded[k + 4][3] for k in range(len(view))]


@lru_cache(maxsize=CACHE_SIZE)
def _brief(tag: str, text: str, image: bool) -> list[list[str]]:
    """Return the features that describe a leaf to its neighbours: 2 and 1 leaves after it, 1 and 2 before it."""
    names = [f"tag={tag}", *(s for s in ([] if image else _shape(text)) if s.startswith(("length=", "is=")))]
    names += [f"word={word}" for word in fold(text).split()[:5]]
    return [[f"{step:+d}{name}" for name in names] for step in (-2, -1, 1, 2)]


def near_shape(view: View) -> Names:
    """Return patterns of the adjacent leaves, and whether they are captions; words are left out as site-specific."""
    near = [_near(text[:200], view.is_fixed(k)) for k, text in enumerate(view.texts)]
    none: list[list[str]] = [[], []]
    padded = [none, *near, none]
    return [padded[k][0] + padded[k + 2][1] for k in range(len(view))]


@lru_cache(maxsize=CACHE_SIZE)
def _near(text: str, fixed: bool) -> list[list[str]]:
    names = [f"is={name}" for name in _patterns(text)] + ["fixed"] * fixed
    return [[f"{step:+d}{name}" for name in names] for step in (-1, 1)]


def _words(text: str) -> list[str]:
    return WORD.findall(text[:400].lower())


@lru_cache(maxsize=CACHE_SIZE)
def _word_set(text: str) -> frozenset[str]:
    return frozenset(_words(text))
