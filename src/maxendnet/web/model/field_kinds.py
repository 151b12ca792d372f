"""Field properties learned from labelled values: HTML attribute, type, and overlap with other fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from maxendnet.web.fields.spans import attribute_of, attribute_of_value, leaf_at, normalise_text, overlap, span_text
from maxendnet.web.fields.types import kind_of_addresses, learned_kind
from maxendnet.web.model.labelled_page import LabelledPage

KIND_OF_ATTRIBUTE = {"href": "link", "src": "image", "data-src": "image", "datetime": "date"}


def learn_attributes(labelled: Sequence[LabelledPage], fields: Sequence[str]) -> dict[str, str]:
    """Return the HTML attribute of each field whose values are attributes."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in fields}
    for page in labelled:
        for span, name in page.values:
            written = page.written(name)
            k = leaf_at(page.view, span)
            assert k is not None
            is_text = (
                page.view.data[k]
                or page.view.attributes[k]
                or normalise_text(span_text(page.view, span)) in map(normalise_text, written)
            )
            if written and not is_text:
                counts[name].update(filter(None, (attribute_of_value(page.view, k, value) for value in written)))
            else:
                counts[name][""] += 1
    most_frequent = {name: counter.most_common(1)[0][0] for name, counter in counts.items() if counter}
    return {name: attribute for name, attribute in most_frequent.items() if attribute}


def learn_kinds(
    labelled: Sequence[LabelledPage], fields: Sequence[str], attributes: Mapping[str, str]
) -> dict[str, str]:
    """Return the type of each field, see `maxendnet.web.fields.types`."""
    kinds = {}
    for name in fields:
        spans = [(page.view, span) for page in labelled for span, field in page.values if field == name]
        leaves = [(view, k) for view, span in spans if (k := leaf_at(view, span)) is not None]
        attribute = attributes.get(name, "")
        if attribute:
            values = [value for view, k in leaves if (value := attribute_of(view, k, attribute))]
        else:
            values = [span_text(view, span) for view, span in spans]
        if leaves and all(view.images[k] for view, k in leaves):
            attribute = "src"
        is_data = bool(leaves) and all(view.data[k] for view, k in leaves)
        kind = KIND_OF_ATTRIBUTE.get(attribute) or (kind_of_addresses(values) if is_data else "")
        kinds[name] = kind or learned_kind(values)
    return kinds


def fields_overlap(labelled: Sequence[LabelledPage], attributes: Collection[str]) -> bool:
    """Whether text values of two fields overlap in a labelled record of a listing."""
    return any(
        overlap(a, b)
        for page in labelled
        if page.is_record
        for a, first in page.values
        for b, second in page.values
        if first < second and first not in attributes and second not in attributes
    )
