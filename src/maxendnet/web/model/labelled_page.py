"""Labelled pages, and unlabelled records that are aligned with labelled ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from maxendnet.web.fields.labels import LabelError, PageLabels, labelled_leaves, labels_on_page
from maxendnet.web.fields.leaf_labels import NONE, leaf_labels
from maxendnet.web.fields.spans import Span, normalise_text, span_text
from maxendnet.web.fields.unmatched import unmatched_error
from maxendnet.web.listings.align import align, record_tokens
from maxendnet.web.model.dataset import FeaturesOf, Featurised
from maxendnet.web.progress import Progress
from maxendnet.web.views.outline import Token
from maxendnet.web.views.view import View

MAX_SIMILAR_RECORDS = 40  # maximum number of unlabelled records per site used for training


class LabelledPage(NamedTuple):
    """A page, or a record of a listing, with its labels.

    Attributes
    ----------
    view : View
    features : Featurised
    labels : list of str
        Label of each leaf.
    values : list of (Span, str)
        Labelled spans and their fields.
    given : PageLabels or None
        Labels as written in the label file; None for a record labelled by alignment.
    unknown : frozenset of str
        Fields whose leaves are unknown, for example because the given value does not occur on the page.
    """

    view: View
    features: Featurised
    labels: list[str]
    values: list[tuple[Span, str]]
    given: PageLabels | None
    unknown: frozenset[str]

    @property
    def site(self) -> str:
        return self.view.page.site

    @property
    def is_record(self) -> bool:
        """Whether it is a record of a listing."""
        return self.view.page.source is not None

    def written(self, name: str) -> list[str]:
        """Return the values of a field as written in the label file."""
        return self.given.written(name) if self.given is not None else []

    def folded_values(self, name: str) -> set[str]:
        """Return the normalised values of a field, both as written in the label file and as on the page."""
        texts = [span_text(self.view, span) for span, field in self.values if field == name]
        return set(map(normalise_text, [*texts, *self.written(name)]))


def check_matched(views: Sequence[View], labels: Sequence[PageLabels | None]) -> None:
    """Raise a `LabelError` if a label does not occur on its page."""
    unmatched = []
    for view, given in zip(views, labels):
        if given is not None:
            where = f"{given.page} (line {given.line})" if given.line else given.page
            unmatched += [(view.page, where, label) for label in labels_on_page(view, given)[1]]
    if unmatched:
        raise LabelError(unmatched_error(unmatched))


def labelled_pages(
    views: Sequence[View], labels: Sequence[PageLabels | None], model: str, features_of: FeaturesOf,
    problems: list[str], progress: Progress, several: Collection[str] = (),
) -> list[LabelledPage]:  # fmt: skip
    """Match labels with the leaves of their pages.

    Parameters
    ----------
    views : sequence of View
    labels : sequence of PageLabels or None
    model : str
        Models other than ``"choice"`` skip pages with unmatched labels.
    features_of : callable
        Computes the features of a view.
    problems : list of str
        A message for each unmatched label is appended to this list.
    progress : callable
    several : collection of str
        Fields with several values, which are known if one of their values occurs on the page.

    Raises
    ------
    LabelError
        No label occurs on its page.
    """
    matches = []
    for i, given in enumerate(labels):
        if given is None:
            continue
        pairs, unmatched = labels_on_page(views[i], given)
        problems += [problem for label in unmatched if (problem := f"{given.page}: {label}") not in problems]
        # an unmatched label does not mean that the page lacks the field
        matched = {name for _, name in pairs}
        unknown = frozenset(label.field for label in unmatched) - (matched & set(several))
        pairs = [(span, name) for span, name in pairs if name not in unknown]
        if not unknown or (pairs and model == "choice"):
            of_leaves = leaf_labels(len(views[i]), labelled_leaves(views[i], pairs))
            matches.append((i, of_leaves, pairs, given, unknown))
    if all(label == NONE for _, of_leaves, *_ in matches for label in of_leaves):
        raise LabelError(
            f"none of the labels occurs on its page ({'; '.join(problems[:3])}); check that labels and pages match."
        )
    return [
        LabelledPage(views[i], features_of(views[i]), of_leaves, pairs, given, unknown)
        for i, of_leaves, pairs, given, unknown in progress(matches, "features")
    ]


def similar_records(
    views: Sequence[View], labels: Sequence[PageLabels | None], labelled: Sequence[LabelledPage],
    features_of: FeaturesOf,
) -> list[tuple[LabelledPage, LabelledPage]]:  # fmt: skip
    """Align unlabelled records of listings with labelled ones.

    Returns
    -------
    list of (LabelledPage, LabelledPage)
        Newly labelled record, and the labelled record that it is aligned with.
    """
    samples: dict[str, list[tuple[LabelledPage, list[Token]]]] = {}
    for page in labelled:
        if page.is_record and page.values:
            samples.setdefault(page.site, []).append((page, record_tokens(page.view)))
    pairs: list[tuple[LabelledPage, LabelledPage]] = []
    for site, of_site in samples.items():
        rows = [
            i
            for i, (view, given) in enumerate(zip(views, labels))
            if given is None and view.page.source is not None and view.page.site == site
        ]
        for i in rows[:: max(1, len(rows) // MAX_SIMILAR_RECORDS)][:MAX_SIMILAR_RECORDS]:
            tokens = record_tokens(views[i])
            alignments = [
                (aligned.labels, aligned.unknown | sample.unknown, sample)
                for sample, sample_tokens in of_site
                if (aligned := align(tokens, sample_tokens, sample.labels)) is not None
            ]
            if alignments:
                of_leaves, unknown, sample = min(alignments, key=lambda item: (len(item[1]), item[0].count(NONE)))
                pairs.append((LabelledPage(views[i], features_of(views[i]), of_leaves, [], None, unknown), sample))
    return pairs
