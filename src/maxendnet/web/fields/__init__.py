"""Fields and their values: kinds, labels, spans on a page, boundaries in a text."""
