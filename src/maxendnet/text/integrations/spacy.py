"""A spaCy component that adds the spans of a tagger to ``doc.ents``, with their probabilities.

::

    nlp = spacy.blank("en")
    nlp.add_pipe("maxendnet", config={"model": "names.medn"})
    doc = nlp("Ada met Bob in Paris.")
    [(ent.text, ent.label_, ent._.score) for ent in doc.ents]

spaCy finds the component by an entry point, so that no import is needed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans, minibatch

from maxendnet.text.reading.errors import TextError
from maxendnet.text.tagger import Tagger

FILE = "tagger.medn"
"""Name of the model file in the folder of the component."""
COLUMNS = ["text", "tag_"]
"""Default attributes of tokens, for taggers with one or two columns."""

if not Span.has_extension("score"):
    Span.set_extension("score", default=None)


@Language.factory(  # type: ignore[untyped-decorator]
    "maxendnet", default_config={"model": None, "columns": None}, assigns=["doc.ents", "span._.score"]
)
def create(nlp: Language, name: str, model: str | None, columns: list[str] | None) -> SpacyTagger:
    """Return the component ``maxendnet`` of a pipeline.

    Parameters
    ----------
    nlp : Language
    name : str
    model : str or None
        Model file of `Tagger.save` or ``maxendnet train``. None is for pipelines that are read from a folder.
    columns : list of str or None
        Attributes of tokens that are the columns of the tagger. None is ``["text"]``, and ``["text", "tag_"]`` for two
        columns.
    """
    return SpacyTagger(name, model, columns)


class SpacyTagger:
    """Component that adds spans to ``doc.ents``, with their probabilities as ``ent._.score``.

    Sentences are labelled one by one if the document has sentence boundaries. White-space tokens are left out.
    Entities of previous components remain unless they overlap.

    Parameters
    ----------
    name : str
    model : str, Tagger or None
    columns : list of str or None
    """

    def __init__(self, name: str, model: Any, columns: list[str] | None = None) -> None:
        self.name, self.model, self.columns = name, model, columns
        self.tagger: Tagger | None = None
        if isinstance(model, Tagger):
            self.tagger = model
        elif model is not None and Path(model).exists():  # a saved pipeline contains the model
            self.tagger = Tagger.load(model)

    def __call__(self, doc: Doc) -> Doc:
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Yield documents with spans. The documents of a batch are labelled together."""
        for docs in minibatch(stream, size=batch_size):
            self._annotate(docs)
            yield from docs

    def _annotate(self, docs: list[Doc]) -> None:
        if self.tagger is None:
            raise TextError(f"the component {self.name!r} has no tagger: there is no model file {self.model!r}.")
        names = self.columns or COLUMNS[: self.tagger.features_.n_columns_in_]
        sentences = [
            (doc, [token for token in sentence if not token.is_space])
            for doc in docs
            for sentence in (doc.sents if doc.has_annotation("SENT_START") else [doc[:]])
        ]
        sentences = [(doc, tokens) for doc, tokens in sentences if tokens]
        rows = [[tuple(getattr(token, name) for name in names) for token in tokens] for _, tokens in sentences]
        entities: dict[int, list[Span]] = {id(doc): [] for doc in docs}
        for (doc, tokens), spans in zip(sentences, self.tagger.predict_spans(rows) if rows else []):
            for start, end, kind, probability in spans:
                entity = Span(doc, tokens[start].i, tokens[end - 1].i + 1, label=kind)
                entity._.score = probability
                entities[id(doc)].append(entity)
        for doc in docs:
            added = entities[id(doc)]
            taken = {token.i for entity in added for token in entity}
            doc.ents = filter_spans(added + [ent for ent in doc.ents if not taken & set(range(ent.start, ent.end))])

    # ---- files -------------------------------------------------------------------------------------------------------

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the tagger to a folder."""
        if self.tagger is not None:
            Path(path).mkdir(parents=True, exist_ok=True)
            self.tagger.save(Path(path) / FILE)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> SpacyTagger:
        """Read the tagger from a folder."""
        self.tagger = Tagger.load(Path(path) / FILE)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the content of the model file."""
        if self.tagger is None:
            return b""
        with tempfile.TemporaryDirectory() as folder:
            self.tagger.save(Path(folder) / FILE)
            return (Path(folder) / FILE).read_bytes()

    def from_bytes(self, content: bytes, *, exclude: Iterable[str] = ()) -> SpacyTagger:
        """Read the tagger from the content of a model file."""
        if content:
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / FILE).write_bytes(content)
                self.tagger = Tagger.load(Path(folder) / FILE)
        return self
