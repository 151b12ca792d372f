"""Tasks of Label Studio: annotated texts to sentences and tags, and predicted spans to pre-annotated tasks."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from maxendnet.text.reading.columns import Columns
from maxendnet.text.reading.errors import TextError
from maxendnet.text.reading.spans import Span, write_tags
from maxendnet.text.reading.text_files import text_of
from maxendnet.text.reading.tokenizer import Token, tokenize


def read_label_studio(
    source: Any, text: str = "text", scheme: str = "IOB2", by: str = "words"
) -> tuple[Columns, list[list[str]]]:
    """Read annotated tasks that Label Studio exported as JSON.

    Each line of a text is a sentence. Tasks without annotations, and cancelled annotations, are left out. Of several
    annotations of a task, the ground truth is used, or else the first one.

    Parameters
    ----------
    source : path, open file, or list of dicts
    text : str, default="text"
        Name of the field of ``data`` with the text.
    scheme : str, default="IOB2"
        Tag scheme of the result.
    by : str, default="words"
        How texts are split into tokens; see `tokenize`. Spans that end within a token are extended to it, with a
        warning.

    Returns
    -------
    X : Columns
    y : list of lists of str

    Examples
    --------
    >>> result = [{"type": "labels", "value": {"start": 0, "end": 3, "labels": ["PER"]}}]
    >>> X, y = read_label_studio([{"id": 1, "data": {"text": "Ada slept"}, "annotations": [{"result": result}]}])
    >>> X[0], y
    ([('Ada',), ('slept',)], [['B-PER', 'O']])
    """
    sentences, labels, extended = [], [], []
    tasks, name = _tasks(source)
    for number, task in enumerate(tasks):
        place = f"{name}: task {task.get('id', number) if isinstance(task, Mapping) else number}"
        annotation = _annotation(task, place)
        if annotation is None:
            continue
        content = task.get("data", {}).get(text)
        if not isinstance(content, str):
            raise TextError(f"{place} has no text in data[{text!r}]; pass the name of the field, text=.")
        spans = sorted(_spans(annotation, content, place))
        start = 0
        for line in content.split("\n"):
            tokens = [Token(token.text, start + token.start, start + token.end) for token in tokenize(line, by)]
            end = start + len(line)
            if tokens:
                inside = [span for span in spans if span.start < end and span.end > start]
                tagged = [_on_tokens(span, tokens) for span in inside]
                extended += [
                    f"{place} {content[span.start : span.end]!r}"
                    for span, words in zip(inside, tagged)
                    if (tokens[words.start].start, tokens[words.end - 1].end) != (span.start, span.end)
                ]
                try:
                    labels.append(write_tags(tagged, len(tokens), scheme))
                except TextError as error:
                    raise TextError(f"{place}: {error}") from None
                sentences.append([token.text for token in tokens])
            start = end + 1
    if extended:
        warnings.warn(
            f"{len(extended)} spans that begin or end within a token, or cross a line, were changed to whole tokens; "
            f"the first one is {extended[0]}. Try another way to split texts: by='characters'.",
            stacklevel=2,
        )
    return Columns.of(sentences), labels


def _tasks(source: Any) -> tuple[list[Any], str]:
    """Return the tasks of a file or a list, and the name of the source."""
    if isinstance(source, (list, tuple)):
        return list(source), "tasks"
    content, name = text_of(source)
    try:
        tasks = json.loads(content)
    except json.JSONDecodeError as error:
        raise TextError(f"{name}:{error.lineno}: not valid JSON ({error.msg}); export the project as JSON.") from None
    if not isinstance(tasks, list):
        raise TextError(f"{name}: expected a list of tasks; export the project as JSON.")
    return tasks, name


def _annotation(task: Any, place: str) -> Mapping[str, Any] | None:
    """Return the annotation of a task, or None if there is none."""
    if not isinstance(task, Mapping) or "data" not in task:
        raise TextError(f"{place} has no 'data'; export the project as JSON (not JSON-MIN).")
    annotations = [row for row in task.get("annotations") or [] if not row.get("was_cancelled")]
    return next((row for row in annotations if row.get("ground_truth")), annotations[0] if annotations else None)


def _spans(annotation: Mapping[str, Any], text: str, place: str) -> Iterable[Span]:
    """Yield the spans of an annotation with character offsets, without white space at their ends."""
    for region in annotation.get("result", []):
        value = region.get("value", {})
        if region.get("type", "labels") not in ("labels", "hypertextlabels") or not value.get("labels"):
            continue
        try:
            start, end, (kind, *_) = int(value["start"]), int(value["end"]), value["labels"]
        except (KeyError, TypeError, ValueError):
            raise TextError(f"{place} has a region without start, end and labels: {value!r}.") from None
        if not 0 <= start < end <= len(text):
            raise TextError(f"{place} has a region {start} to {end}, but its text has {len(text)} characters.")
        inside = text[start:end]
        start += len(inside) - len(inside.lstrip())
        if inside.strip():
            yield Span(start, start + len(inside.strip()), str(kind))


def _on_tokens(span: Span, tokens: list[Token]) -> Span:
    """Return a span of characters as a span of all tokens that it touches."""
    touched = [t for t, token in enumerate(tokens) if token.start < span.end and token.end > span.start]
    return Span(touched[0], touched[-1] + 1, span.type)


def label_studio_tasks(
    tagger: Any, texts: Iterable[str], by: str = "words", from_name: str = "label", to_name: str = "text",
    model_version: str = "maxendnet",
) -> list[dict[str, Any]]:  # fmt: skip
    """Return pre-annotated tasks for the import of Label Studio.

    Parameters
    ----------
    tagger : Tagger
    texts : iterable of str
        One text per task. Each line is a sentence.
    by : str, default="words"
        How texts are split into tokens; see `tokenize`.
    from_name, to_name : str
        Names of the ``Labels`` and ``Text`` elements of the labelling interface. ``to_name`` is also the name of the
        text in ``data``.
    model_version : str, default="maxendnet"

    Returns
    -------
    list of dict
        ``json.dump`` writes them. The score of a region is the probability of the span, and the score of a task the
        lowest probability of its sentences, so that tasks can be sorted by uncertainty.

    Examples
    --------
    >>> from maxendnet.text import Tagger
    >>> tagger = Tagger().fit([["Ada", "met", "Bob"]], [["B-PER", "O", "B-PER"]])
    >>> (task,) = label_studio_tasks(tagger, ["Bob met Ada"])
    >>> [(region["value"]["text"], region["value"]["labels"]) for region in task["predictions"][0]["result"]]
    [('Bob', ['PER']), ('Ada', ['PER'])]
    """
    tasks = []
    for text in texts:
        if not isinstance(text, str):
            raise TextError(f"texts must be strings, got {text!r}.")
        lines, start = [], 0
        for line in text.split("\n"):
            tokens = [Token(token.text, start + token.start, start + token.end) for token in tokenize(line, by)]
            lines += [tokens] if tokens else []
            start += len(line) + 1
        words = [[token.text for token in tokens] for tokens in lines]
        regions: list[dict[str, Any]] = []
        for tokens, spans in zip(lines, tagger.predict_spans(words) if words else []):
            for span in spans:
                first, last = tokens[span.start].start, tokens[span.end - 1].end
                value = {"start": first, "end": last, "text": text[first:last], "labels": [span.type]}
                names = {"id": f"span-{len(regions)}", "from_name": from_name, "to_name": to_name, "type": "labels"}
                regions.append({**names, "score": round(span.probability, 6), "value": value})
        confidences = [row.sequence for row in tagger.predict_confidence(words)] if words else [1.0]
        prediction = {"model_version": model_version, "score": round(min(confidences), 6), "result": regions}
        tasks.append({"data": {to_name: text}, "predictions": [prediction]})
    return tasks
