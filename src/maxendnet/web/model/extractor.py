"""The extractor: learns fields from labelled pages, and makes records of other pages."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.web.features.groups import GROUPS, KNOWN_SITES, NEW_SITES
from maxendnet.web.fields.boundaries import SURE, Boundaries, Labelled
from maxendnet.web.fields.labels import (
    LabelError,
    PageLabels,
    field_order,
    labelled_nodes,
    labels_data,
    labels_images,
    labels_on_page,
)
from maxendnet.web.fields.leaf_labels import NONE, fields_of, leaf_labels
from maxendnet.web.fields.spans import Span, attribute_of, attribute_of_value, is_part, same_value, span_text, whole
from maxendnet.web.fields.types import KINDS, fits, kind_of_addresses, learned_kind, normalise
from maxendnet.web.fields.unmatched import unmatched_error
from maxendnet.web.listings.align import align, record_tokens
from maxendnet.web.listings.regions import choose_records, given_records
from maxendnet.web.listings.split import MODES as RECORDS
from maxendnet.web.listings.split import learn_records, split_pages
from maxendnet.web.model.calibration import Calibration, fit_calibration, held_out_parts
from maxendnet.web.model.dataset import (
    MODELS,
    Featurised,
    featurise,
    max_marginals,
    to_examples,
    vocabulary,
)
from maxendnet.web.model.decode import BestLeaf, best_leaves, field_margins, fields_together, levels_of, scale_of
from maxendnet.web.model.extractor_file import load_extractor, save_extractor
from maxendnet.web.model.field_history import FieldHistory
from maxendnet.web.model.numbering import Numbering, Vocabulary
from maxendnet.web.model.record import Cell, Record
from maxendnet.web.model.site_votes import agree
from maxendnet.web.model.systems import default_system, set_model, situation
from maxendnet.web.model.systems import estimator as estimator_of
from maxendnet.web.pages.folder import site_of
from maxendnet.web.pages.page import Page, PageError, UnreadPage, read_page
from maxendnet.web.views.outline import Token
from maxendnet.web.views.selectors import whole_path
from maxendnet.web.views.view import View, make_views

Source = Page | UnreadPage | str | bytes | os.PathLike[str]
SETS = {"known": KNOWN_SITES, "new": NEW_SITES}
Progress = Callable[[Iterable[Any], str], Iterable[Any]]
FEWEST_CELLS = 2  # of a record of a listing with three fields or more
KIND_OF_ATTRIBUTE = {"href": "link", "src": "image", "data-src": "image", "datetime": "date"}
JOINED = "; "  # between several values
MOST_LIKE = 40  # records of a site that are lined up with labelled ones


def _quiet(items: Iterable[Any], _: str) -> Iterable[Any]:
    return items


class Extractor(BaseEstimator):
    """Learns where fields are from labelled pages, and makes records of other pages.

    Parameters
    ----------
    estimator : an estimator of maxendnet, optional
        None is a LapMEDN if leaves compete, and else an L2CRF, see `web.model.systems`. What depends on the labels
        is set here: ``structure`` (but for its ``bias`` and ``ends``) and ``cost``.
    model : {"choice", "independent", "chain", "hierarchical"}
        Leaves compete for every field; each leaf by itself; leaves in a row; or leaves of the vision tree, whose inner
        blocks are labelled too. With few labelled pages the first is best by far; the others are alike, since features
        see what is around a leaf.
    features : {"known", "new"} or sequence of str
        The groups for pages of labelled sites, those for new sites, or names of groups.
    min_sites : int or None
        A feature counts only if it occurs on that many labelled sites; None is 1, or 2 with ``features="new"``.
    miss : float or None
        For margin models: what it costs to miss a field; any other error costs 1. None is 1 if leaves compete, else 5.
    agreement : float
        Weight of the votes of pages of the same site; 0 for one page at a time.
    calibrate : bool
        Learn confidences from held-out sites and pages; takes a few more fits.
    siblings, constraints : bool
        For the hierarchical model, see `set_model`. On pages about one thing both cost time and gain nothing.
    types : dict of str to str, optional
        Kinds of fields, out of ``web.fields.types.KINDS``: a cell of another kind is left out. None learns kinds
        from the labelled values; they then hold for listings.
    several : sequence of str
        Fields that may have several values in a record, such as authors.
    records : {"one", "many", "auto"}
        One record a page; labelled pages are listings; or those are around whose labels something repeats, see
        `maxendnet.web.listings.split`.

    Attributes
    ----------
    estimator_ : the fitted estimator
    fields_ : list of str
    sites_ : list of str
        Labelled sites.
    layout_ : bool
        Whether the pages had boxes. Pages to extract from must be alike.
    images_ : bool
        Whether a field is an image.
    data_ : bool
        Whether a field is a value that pages say to programs and do not show, see `web.pages.structured_data`.
    calibrations_ : dict
        ``"known"`` and ``"new"``: for pages of labelled sites, and of others.
    boundaries_ : Boundaries
        Where values begin and end in the texts around them.
    together_ : set of (int, int)
        Fields that a leaf may have together, as places in `fields_`.
    scale_, levels_ : float, list of float
        What scores of the estimator are multiplied by, and for every field which of them means even odds; see
        `scale_of` and `levels_of` in `maxendnet.web.model.decode`.
    listings_ : dict of str to SiteRecords
        For every site with labelled listings, how records are found.
    kinds_ : dict of str to str
        The kind of value that every field has, see `maxendnet.web.fields.types`.
    attributes_ : dict of str to str
        Fields whose values are attributes, such as the address of a link, and which.
    overlap_ : bool
        Whether values of two fields overlap in labelled records of listings.
    problems_ : list of str
        Labels that could not be used, one sentence each.

    Examples
    --------
    >>> from maxendnet.web.tool.toy import toy_pages
    >>> toy = toy_pages(n_sites=2, n_pages=4, random_state=0)
    >>> extractor = Extractor(calibrate=False).fit(toy.pages[:-1], toy.labels[:-1])
    >>> record, = extractor.extract(toy.pages[-1:])
    >>> record.fields["price"].value == toy.labels[-1].values["price"][0]
    True
    """

    def __init__(
        self,
        estimator: MarkovNetwork | None = None,
        model: str = "choice",
        features: str | Sequence[str] = "known",
        min_sites: int | None = None,
        miss: float | None = None,
        agreement: float = 1.0,
        calibrate: bool = True,
        siblings: bool = False,
        constraints: bool = False,
        records: str = "one",
        types: dict[str, str] | None = None,
        several: Sequence[str] = (),
    ) -> None:
        self.estimator = estimator
        self.model = model
        self.features = features
        self.min_sites = min_sites
        self.miss = miss
        self.agreement = agreement
        self.calibrate = calibrate
        self.siblings, self.constraints = siblings, constraints
        self.records = records
        self.types = types
        self.several = several

    # ---- learning -----------------------------------------------------------------------------------------------

    def fit(
        self, pages: Sequence[Page], labels: Sequence[PageLabels | None], *, fields: Sequence[str] = (),
        skip_unmatched: bool = False, progress: Progress = _quiet,
    ) -> Extractor:  # fmt: skip
        """Learn from pages; those without labels (None) still tell what the pages of a site have in common.

        Parameters
        ----------
        pages : sequence of Page
        labels : sequence of PageLabels or None
            One for every page.
        fields : sequence of str
            Wanted fields, in the order of the output; None: those that are labelled.
        skip_unmatched : bool
            Leave out labels that are nowhere on their page, and name them in ``problems_``: the field is then unknown
            on that page. Models other than ``"choice"`` leave out the page.
        progress : callable, optional
            Wraps what is gone through, with a word for it.

        Raises
        ------
        LabelError
            No page has a label, or a label is nowhere on its page.
        """
        if len(labels) != len(pages):
            raise ValueError(f"{len(pages)} pages have {len(labels)} entries of labels; give one for each, or None.")
        groups = self.check_settings()
        self.fields_ = field_order([x for x in labels if x is not None], fields)
        if not self.fields_:
            raise LabelError('no page has a label; give at least one, such as {"page": "a.html", "values": {...}}.')
        self.layout_ = self._has_layout(pages)
        self.images_, self.data_ = labels_images(pages, labels), labels_data(pages, labels)
        of_pages = self.make_views(list(progress(pages, "reading")))
        if not skip_unmatched:
            check_matched(of_pages, labels)
        views, of_views = self.split_labelled(of_pages, labels)
        numbering = Numbering()
        return self.fit_views(views, of_views, lambda i: featurise(views[i], groups, self.model, numbering), progress)

    def make_views(self, pages: Sequence[Page]) -> list[View]:
        """Views of pages with the leaves that this model knows."""
        return make_views(pages, self.images_, data=self.data_)

    def split_labelled(
        self, views: Sequence[View], labels: Sequence[PageLabels | None]
    ) -> tuple[list[View], list[PageLabels | None]]:
        """Learn how listings are split, and split them: views of pages and records, with the labels of each."""
        self.problems_: list[str]
        self.listings_, self.problems_ = learn_records(views, labels, self.records, self.several)
        if not self.listings_:
            return list(views), list(labels)
        units, problems = split_pages(views, labels, self.listings_, self.several)
        self.problems_ += problems
        return self.make_views(units.pages), units.labels

    def fit_views(
        self, views: Sequence[View], labels: Sequence[PageLabels | None], features_of: Callable[[int], Featurised],
        progress: Progress = _quiet,
    ) -> Extractor:  # fmt: skip
        """The rest of `fit`, for those who keep views and features between fits; fields, layout and images are set."""
        rows, of_leaves, values, unknown = self._labelled(views, labels)
        sites = [views[i].page.site for i in rows]
        self.sites_ = sorted(set(sites))
        self.together_ = fields_together({label for some in of_leaves for label in some}, self.fields_)
        made = [features_of(i) for i in progress(rows, "features")]
        truth = [_Truth(views[i], made[k], of_leaves[k], values[k], labels[i], unknown[k]) for k, i in enumerate(rows)]
        self.attributes_ = self._labelled_attributes(truth)
        self.kinds_, self.overlap_ = self._labelled_kinds(truth)
        self._like = self._like_labelled(views, labels, truth, features_of)
        fitted = self._fit_model(truth, sites)
        self.estimator_, self.scale_, self.levels_ = fitted.estimator, fitted.scale, fitted.levels
        self.boundaries_ = fitted.boundaries
        self.calibrations_ = {"known": Calibration(), "new": Calibration()}
        if self.calibrate:
            self._calibrate(truth, sites, progress)
        self.memory_ = self._remember(truth)
        return self

    def check_settings(self) -> list[str]:
        """The feature groups that are asked for; an error if there is no such group, set of them or model."""
        chosen = SETS.get(self.features) if isinstance(self.features, str) else tuple(self.features)
        if chosen is None or self.model not in MODELS:
            what, given, choice = (
                ("model", self.model, MODELS) if self.model not in MODELS else ("features", self.features, tuple(SETS))
            )
            raise ValueError(f"{what} is {given!r}; choose one of {', '.join(map(repr, choice))}.")
        if isinstance(self.several, str) or not all(isinstance(name, str) for name in self.several):
            raise ValueError(f"several is {self.several!r}; give the names of fields in a list.")
        if not (self.types is None or isinstance(self.types, dict)):
            raise ValueError(f"types is {self.types!r}; give a dict of fields and their types.")
        wrong = [kind for kind in (self.types or {}).values() if kind not in KINDS]
        if wrong:
            raise ValueError(f"there is no type {wrong[0]!r}; choose one of {', '.join(KINDS)}.")
        if self.records not in RECORDS:
            raise ValueError(f"records is {self.records!r}; choose one of {', '.join(map(repr, RECORDS))}.")
        if (self.siblings or self.constraints) and self.model != "hierarchical":
            raise ValueError(f"siblings and constraints are for model='hierarchical', and model is {self.model!r}.")
        unknown = [name for name in chosen if name not in GROUPS]
        if unknown:
            raise ValueError(f"there is no feature group {unknown[0]!r}; choose among {', '.join(GROUPS)}.")
        return list(chosen)

    @staticmethod
    def _has_layout(pages: Sequence[Page]) -> bool:
        having = [page.layout is not None for page in pages]
        if any(having) and not all(having):
            without = next(page for page, has in zip(pages, having) if not has)
            raise ValueError(
                f"{sum(having)} of {len(pages)} pages have boxes and {without.name!r} has none; render all, or none."
            )
        return all(having) and bool(having)

    def _labelled(
        self, views: Sequence[View], labels: Sequence[PageLabels | None]
    ) -> tuple[list[int], list[list[str]], list[list[tuple[Span, str]]], list[frozenset[str]]]:
        """Labelled views, the labels of their leaves, the labelled places, and the fields that are unknown there."""
        rows, found, values, unknown = [], [], [], []
        for i, given in enumerate(labels):
            if given is None:
                continue
            pairs, unmatched = labels_on_page(views[i], given)
            problems = [f"{given.page}: {label}" for label in unmatched]
            self.problems_ += [problem for problem in problems if problem not in self.problems_]
            # an unmatched label must not teach that the page lacks the field
            not_known = frozenset(label.field for label in unmatched)
            pairs = [(span, name) for span, name in pairs if name not in not_known]
            if not_known and (not pairs or self.model != "choice"):
                continue
            rows.append(i)
            found.append(leaf_labels(views[i].leaves, labelled_nodes(views[i], pairs)))
            values.append(pairs)
            unknown.append(not_known)
        if not any(label != NONE for some in found for label in some):
            raise LabelError(
                f"none of the labels is on its page ({'; '.join(self.problems_[:3])}); do they belong to these pages?"
            )
        return rows, found, values, unknown

    def _labelled_attributes(self, truth: Sequence[_Truth]) -> dict[str, str]:
        """Fields whose labelled values are attributes, not texts, and which."""
        found: dict[str, Counter[str]] = {name: Counter() for name in self.fields_}
        for t in truth:
            for span, name in t.values:
                written = t.given.written(name) if t.given is not None else []
                k = t.view.leaf_of[span.first]
                shown = t.view.data[k] or same_value(span_text(t.view, span)) in map(same_value, written)
                if written and not shown:
                    found[name].update(filter(None, (attribute_of_value(t.view, k, value) for value in written)))
                else:
                    found[name][""] += 1
        most = {name: times.most_common(1)[0][0] for name, times in found.items() if times}
        return {name: attribute for name, attribute in most.items() if attribute}

    def _labelled_kinds(self, truth: Sequence[_Truth]) -> tuple[dict[str, str], bool]:
        """The kind of value that every field has, and whether values of two fields overlap in a listing."""
        kinds = {}
        for name in self.fields_:
            spans = [(t.view, span) for t in truth for span, field in t.values if field == name]
            attribute = self.attributes_.get(name, "")
            if attribute:
                values = [x for view, s in spans if (x := attribute_of(view, view.leaf_of[s.first], attribute))]
            else:
                values = [span_text(view, span) for view, span in spans]
            if spans and all(view.images[view.leaf_of[span.first]] for view, span in spans):
                attribute = "src"
            said = bool(spans) and all(view.data[view.leaf_of[span.first]] for view, span in spans)
            kinds[name] = KIND_OF_ATTRIBUTE.get(attribute) or (kind_of_addresses(values) if said else "")
            kinds[name] = kinds[name] or learned_kind(values)
        overlap = any(
            _overlap(a, b)
            for t in truth
            if t.view.page.source is not None
            for a, one in t.values
            for b, other in t.values
            if one < other and one not in self.attributes_ and other not in self.attributes_
        )
        return kinds | (self.types or {}), overlap

    def _like_labelled(
        self, views: Sequence[View], labels: Sequence[PageLabels | None], truth: Sequence[_Truth],
        features_of: Callable[[int], Featurised],
    ) -> list[tuple[_Truth, _Truth]]:  # fmt: skip
        """Records of listings that are lined up with a labelled one, see `web.listings.align`, each with that one."""
        if self.model != "choice":
            return []
        samples: dict[str, list[tuple[_Truth, list[Token]]]] = {}
        for t in truth:
            if t.view.page.source is not None and t.values:
                samples.setdefault(t.view.page.site, []).append((t, record_tokens(t.view)))
        found: list[tuple[_Truth, _Truth]] = []
        for site, some in samples.items():
            rows = [
                i
                for i, (view, given) in enumerate(zip(views, labels))
                if given is None and view.page.source is not None and view.page.site == site
            ]
            for i in rows[:: max(1, len(rows) // MOST_LIKE)][:MOST_LIKE]:
                tokens = record_tokens(views[i])
                lined_up = [
                    (aligned.labels, aligned.unknown | t.unknown, t)
                    for t, own in some
                    if (aligned := align(tokens, own, t.labels)) is not None
                ]
                if lined_up:
                    of_leaves, unknown, t = min(lined_up, key=lambda item: (len(item[1]), item[0].count(NONE)))
                    found.append((_Truth(views[i], features_of(i), of_leaves, [], None, unknown), t))
        return found

    def _fit_model(self, truth: Sequence[_Truth], sites: Sequence[str], tol: float | None = None) -> _Fitted:
        like = [t for t, sample in self._like if any(sample is other for other in truth)]
        truth, sites = [*truth, *like], [*sites, *(t.view.page.site for t in like)]
        made, of_leaves = [t.made for t in truth], [t.labels for t in truth]
        least = self.min_sites if self.min_sites is not None else 2 if self.features == "new" else 1
        words = vocabulary(made, sites, least)
        estimator: Any = (
            clone(self.estimator)
            if self.estimator is not None
            else estimator_of(
                default_system(self.model), None, situation(self.features == "new", len(self.sites_)), self.model
            )
        )
        examples = to_examples(made, words, self.model, of_leaves, [t.unknown for t in truth])
        miss = self.miss if self.miss is not None else 1.0 if self.model == "choice" else 5.0
        set_model(estimator, self.model, np.asarray(examples.y).tolist(), miss, self.siblings, self.constraints)
        if tol is not None:
            estimator.set_params(tol=max(tol, estimator.tol))
        estimator.fit(examples)
        margins = self._plain_margins(made, estimator, words)
        scale = scale_of(margins)
        levels = levels_of([scale * m for m in margins], of_leaves, self.fields_)
        given = [Labelled(t.view, name, span) for t in truth for span, name in t.values]
        boundaries = Boundaries.learn(given, self.features != "new", tol)
        return _Fitted(estimator, words, scale, levels, boundaries)

    # ---- confidence ---------------------------------------------------------------------------------------------

    def _calibrate(self, truth: Sequence[_Truth], sites: Sequence[str], progress: Progress) -> None:
        """Hold out sites, for pages of new sites, and pages, for pages of known ones."""
        answers: dict[str, tuple[list[BestLeaf], list[bool], list[tuple[str, str]]]] = {
            "new": ([], [], []), "known": ([], [], [])
        }  # fmt: skip
        for kind, out in progress(held_out_parts(sites), "confidence"):
            train = [k for k in range(len(sites)) if k not in out]
            if not any(label != NONE for k in train for label in truth[k].labels):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # these models are only asked how often they err
                fitted = self._fit_model([truth[k] for k in train], [sites[k] for k in train], tol=0.1)
            held = [truth[k] for k in sorted(out)]
            margins = self._margins(
                [t.view for t in held], [t.made for t in held], fitted.estimator, fitted.scale, fitted.words
            )
            for t, m in zip(held, margins):
                chosen = best_leaves(m, t.view.texts, together=self.together_)
                for name, value in zip(self.fields_, self._values(t.view, chosen, fitted.boundaries, fitted.levels)):
                    if value is not None and name not in t.unknown:
                        best, span = value
                        answers[kind][0].append(best)
                        answers[kind][1].append(same_value(span_text(t.view, span)) in t.wanted(name))
                        answers[kind][2].append((t.view.page.site, name))
        for kind, (found, right, groups) in answers.items():
            if found:
                # pages of a new site fail together, those of a known one mostly do not
                self.calibrations_[kind] = fit_calibration(found, right, groups if kind == "new" else None)
        for kind, other in (("known", "new"), ("new", "known")):
            if not self.calibrations_[kind].n_answers:
                self.calibrations_[kind] = self.calibrations_[other]

    def _remember(self, truth: Sequence[_Truth]) -> dict[str, dict[str, FieldHistory]]:
        """For every labelled site and field, where it was and how sure the model is there; `check` compares with it."""
        views = [t.view for t in truth]
        margins = self._margins(views, [t.made for t in truth], self.estimator_, self.scale_)
        records = self.records_of(views, margins, all_rows=True)
        found: dict[str, dict[str, FieldHistory]] = {}
        for site in self.sites_:
            found[site] = {}
            for name in self.fields_:
                rows = [k for k, t in enumerate(truth) if t.view.page.site == site and name not in t.unknown]
                places = [
                    (k, leaf) for k in rows for leaf, label in enumerate(truth[k].labels) if name in fields_of(label)
                ]
                if not places:
                    continue
                kinds = list(dict.fromkeys(truth[k].view.kinds[leaf] for k, leaf in places))
                paths = Counter(whole_path(truth[k].view.page, truth[k].view.leaves[leaf]) for k, leaf in places)
                cells = [cell for k in rows if (cell := records[k].fields[name]) is not None]
                confidence = sum(cell.confidence for cell in cells) / max(1, len(cells))
                share = len({k for k, _ in places}) / len(rows)
                found[site][name] = FieldHistory(kinds, paths.most_common(1)[0][0], share, confidence)
        return found

    # ---- extraction ---------------------------------------------------------------------------------------------

    def _plain_margins(
        self, made: Sequence[Featurised], model: Any, words: Vocabulary | None = None
    ) -> list[NDArray[np.float64]]:
        classes = model.classes_.tolist()
        return [field_margins(v, classes, self.fields_) for v in max_marginals(model, made, self.model, words)]

    def _margins(
        self, views: Sequence[View], made: Sequence[Featurised], model: Any, scale: float,
        words: Vocabulary | None = None,
    ) -> list[NDArray[np.float64]]:  # fmt: skip
        return agree(views, [scale * m for m in self._plain_margins(made, model, words)], self.agreement)

    def margins(
        self, pages: Sequence[Page], progress: Progress = _quiet
    ) -> tuple[list[View], list[NDArray[np.float64]]]:
        """Views of pages, and by how much each field beats ``none`` at each of their leaves.

        A listing of a labelled site has a view for each of its records, see `maxendnet.web.listings.split`.
        """
        if self._has_layout(pages) != self.layout_ and len(pages):
            raise ValueError(
                "the model was trained with boxes of a browser, and these pages have none; render them (--layout on)."
                if self.layout_
                else "the model was trained without boxes of a browser, and these pages have them; leave them out."
            )
        views = self.make_views(pages)
        if self.listings_:
            units, _ = split_pages(views, [None] * len(views), self.listings_)
            views = self.make_views(units.pages)
        groups = self.check_settings()
        numbering = Numbering()
        made = [featurise(view, groups, self.model, numbering) for view in progress(views, "features")]
        return views, self._margins(views, made, self.estimator_, self.scale_)

    def extract(
        self, pages: Source | Sequence[Source], *, records: str | Sequence[Sequence[Sequence[int]]] | None = None,
        min_confidence: float = 0.0, progress: Progress = _quiet,
    ) -> list[Record]:  # fmt: skip
        """Records of pages, best given all pages of a site at once.

        Parameters
        ----------
        pages : Page, UnreadPage, HTML (str), bytes or path, or a sequence of these
            Text with a "<" is HTML, other text a path.
        records : {"one", "auto"} or a list for every page, optional
            None: as the model has learned it: listings of labelled sites are split into their records, other pages of
            these sites are one, and on other sites records are found as runs of similar blocks if the model was learned
            with "many" or "auto". Else one record for what is not a listing by its labels, runs of similar blocks also
            on labelled sites, or the first and last nodes of the records.
        min_confidence : float
            A cell below is "not found".
        progress : callable, optional

        Returns
        -------
        list of Record
            In the order of pages, then of records on a page. A page that cannot be read (too large, no HTML) has a row
            without cells and with an ``error``.

        Raises
        ------
        OSError
            A file cannot be opened.
        """
        if isinstance(records, str) and records not in ("one", "auto"):
            raise ValueError(f"records is {records!r}; choose 'one' or 'auto', or give the records of every page.")
        single = (Page, UnreadPage, str, bytes)
        items = pages if isinstance(pages, Iterable) and not isinstance(pages, single) else [pages]
        sources = [self._read(source) for source in items]
        if records is not None and not isinstance(records, str):
            records = [given for source, given in zip(sources, records) if isinstance(source, Page)]
        views, margins = self.margins([source for source in sources if isinstance(source, Page)], progress)
        rows: dict[int, list[Record]] = {}
        for view, of_view in zip(views, self._records_of_views(views, margins, records, min_confidence)):
            rows.setdefault(id(view.page.source or view.page), []).extend(of_view)
        out: list[Record] = []
        for source in sources:
            if isinstance(source, UnreadPage):
                out.append(Record(source.name, "", None, dict.fromkeys(self.fields_), error=source.error))
            else:
                out += rows.pop(id(source), [])  # a page that is given twice has all of its rows at its first place
        return out

    def _read(self, source: Source) -> Page | UnreadPage:
        if isinstance(source, UnreadPage):
            return source
        try:
            return as_page(source, self.sites_)
        except PageError as error:
            if isinstance(source, os.PathLike) or (isinstance(source, str) and "<" not in source):
                return UnreadPage(Path(source).name, str(error))
            return UnreadPage("", str(error))

    def records_of(
        self, views: Sequence[View], margins: Sequence[NDArray[np.float64]],
        records: str | Sequence[Sequence[Sequence[int]]] | None = None, min_confidence: float = 0.0,
        all_rows: bool = False,
    ) -> list[Record]:  # fmt: skip
        """The rest of `extract`, for those who have views and margins; ``all_rows``: also records without a cell."""
        of_views = self._records_of_views(views, margins, records, min_confidence, all_rows)
        return [record for of_view in of_views for record in of_view]

    def _records_of_views(
        self, views: Sequence[View], margins: Sequence[NDArray[np.float64]],
        records: str | Sequence[Sequence[Sequence[int]]] | None, min_confidence: float, all_rows: bool = False,
    ) -> list[list[Record]]:  # fmt: skip
        out: list[list[Record]] = [[] for _ in views]
        number, last = 0, None
        for i, (view, m) in enumerate(zip(views, margins)):
            source = view.page.source
            number = number if source is not None and source is last else 0
            last = source
            known = view.page.site in self.sites_
            if source is not None or records == "one" or (records is None and (known or self.records == "one")):
                parts = [list(range(len(view)))]
            elif records is None or isinstance(records, str):
                parts = choose_records(view, m)
            else:
                parts = given_records(view, records[i])
            curve = self.calibrations_["known" if known else "new"]
            for leaves in parts:
                found = best_leaves(m, view.texts, leaves, self.together_)
                values = self._values(view, found, self.boundaries_, self.levels_)
                cells = [
                    self._cell(view, name, value, curve, min_confidence) for name, value in zip(self.fields_, values)
                ]
                if self.several:
                    self._add_others(view, cells, m, leaves)
                # what has hardly anything of a record is none: the head of a table, an advertisement
                n_found = sum(cell is not None for cell in cells)
                if source is None or all_rows or n_found >= min(FEWEST_CELLS, (len(cells) + 1) // 2):
                    page = view.page
                    out[i].append(Record(page.name, page.site, number, dict(zip(self.fields_, cells)), page.url))
                    number += 1
        return out

    def _values(
        self, view: View, chosen: Sequence[BestLeaf | None], boundaries: Boundaries, levels: Sequence[float]
    ) -> list[tuple[BestLeaf, Span] | None]:
        """Where the value of every field begins and ends, around the leaf that was chosen for it.

        A value does not reach the leaf of a field that is more likely there than not. On a site with listings, and
        where the type of a field was given, a value must be of the kind that the labelled ones are. In a record two
        fields on one text do not overlap unless labelled ones do: a text with several fields may lack one.
        """
        best = [x if x is None else x._replace(score=x.score - level) for x, level in zip(chosen, levels)]
        taken = {x.leaf for x in best if x is not None and x.score > 0}
        found: list[tuple[BestLeaf, Span] | None] = []
        for name, own in zip(self.fields_, best):
            found.append(None)
            if own is not None and name in self.attributes_:
                found[-1] = own._replace(edge=SURE), whole(view, own.leaf)
            elif own is not None:
                span, edge = boundaries.find(view, name, own.leaf, taken - {own.leaf})
                guarded = view.page.source is not None or view.page.site in self.listings_ or name in (self.types or {})
                if not guarded or fits(self.kinds_.get(name, ""), span_text(view, span)):
                    found[-1] = own._replace(edge=edge), span
        if view.page.source is not None and not self.overlap_:
            sure = sorted(
                (-value[0].edge, f)
                for f, value in enumerate(found)
                if value is not None and self.fields_[f] not in self.attributes_
            )
            kept: list[Span] = []
            for _, f in sure:
                value = found[f]
                assert value is not None
                if any(_overlap(value[1], other) for other in kept):
                    found[f] = None
                elif value[0].score > 0:
                    kept.append(value[1])
        return found

    def _cell(
        self, view: View, name: str, found: tuple[BestLeaf, Span] | None, curve: Calibration, least: float
    ) -> Cell | None:
        if found is None:
            return None
        best, span = found
        confidence = curve(best)
        if confidence < least:
            return None
        value, part = span_text(view, span), is_part(view, span)
        if name in self.attributes_:
            attribute = attribute_of(view, best.leaf, self.attributes_[name])
            if attribute is None:
                return None
            value, part = attribute, False
        nodes = view.page.nodes
        if nodes is not None:
            span = span._replace(first=int(nodes[span.first]), last=int(nodes[span.last]))
        normal = normalise(self.kinds_.get(name, ""), value, view.page.url)
        return Cell(value, confidence, span.first, tuple(span) if part else None, normal or None)

    def _add_others(
        self, view: View, cells: list[Cell | None], margins: NDArray[np.float64], leaves: Sequence[int]
    ) -> None:
        """The other values of fields with several: leaves made like the best one that are more likely so than not."""
        number = {t: k for k, t in enumerate(view.leaves)} if view.page.nodes is None else {
            int(view.page.nodes[t]): k for k, t in enumerate(view.leaves)
        }  # fmt: skip
        taken = {number[cell.node] for cell in cells if cell is not None}
        for f, name in enumerate(self.fields_):
            cell = cells[f]
            if name not in self.several or cell is None:
                continue
            best = number[cell.node]
            values = {best: cell.value}
            for k in leaves:
                if k not in taken and view.kinds[k] == view.kinds[best] and margins[k, f] > self.levels_[f]:
                    span, _ = self.boundaries_.find(view, name, k, taken | (set(values) - {k}))
                    attribute = self.attributes_.get(name)
                    values[k] = (attribute_of(view, k, attribute) or "") if attribute else span_text(view, span)
            ordered = tuple(dict.fromkeys(value for _, value in sorted(values.items()) if value))
            cells[f] = cell._replace(value=JOINED.join(ordered), values=ordered)

    # ---- files --------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that `Extractor.load` reads, and ``maxendnet info`` too."""
        save_extractor(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Extractor:
        """Read a model that `save` wrote; `maxendnet.ModelFileError` if it is none, or damaged."""
        return load_extractor(cls, path)


def as_page(source: Page | str | bytes | os.PathLike[str], known: Sequence[str] = ()) -> Page:
    """A page of HTML, bytes or a path.

    Examples
    --------
    >>> as_page("<p>hello").texts[2]
    'hello'
    """
    if isinstance(source, Page):
        return source
    if isinstance(source, str) and "<" in source:
        return Page.from_html(source)
    if isinstance(source, bytes):
        return read_page(source)
    if not isinstance(source, (str, os.PathLike)) or not str(source).strip():
        raise TypeError(f"a page is HTML as text or bytes, a path or a Page; this is {source!r}.")
    path = Path(source)
    page = read_page(path)
    page.site = site_of(page, path.resolve().parent.name, known)
    return page


def check_matched(views: Sequence[View], labels: Sequence[PageLabels | None]) -> None:
    """Raise a `LabelError` that names the labels without a place on their page, if there are any."""
    unmatched = []
    for view, given in zip(views, labels):
        if given is not None:
            where = f"{given.page} (line {given.line})" if given.line else given.page
            unmatched += [(view.page, where, label) for label in labels_on_page(view, given)[1]]
    if unmatched:
        raise LabelError(unmatched_error(unmatched))


def _overlap(a: Span, b: Span) -> bool:
    """Whether two stretches have a letter in common."""
    return max((a.first, a.begin), (b.first, b.begin)) < min((a.last, a.end), (b.last, b.end))


class _Fitted(NamedTuple):
    """A model with its columns, and what its scores mean."""

    estimator: Any
    words: Vocabulary
    scale: float
    levels: list[float]
    boundaries: Boundaries


class _Truth(NamedTuple):
    """A labelled page."""

    view: View
    made: Featurised
    labels: list[str]
    values: list[tuple[Span, str]]
    given: PageLabels | None
    unknown: frozenset[str] = frozenset()

    def wanted(self, name: str) -> set[str]:
        """Values of a field, folded."""
        written = self.given.written(name) if self.given is not None else []
        return {same_value(span_text(self.view, span)) for span, field in self.values if field == name} | {
            same_value(value) for value in written
        }
