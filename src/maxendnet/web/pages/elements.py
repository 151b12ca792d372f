"""Sets of HTML element names."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Return the set of words in a text."""
    return frozenset(text.split())


# elements that start a new line on the screen
BREAKS = words(
    "br hr p div table tr td th ul ol li dl dt dd h1 h2 h3 h4 h5 h6 section article header footer nav aside main form "
    "fieldset blockquote pre address figure figcaption img input select textarea button"
)
