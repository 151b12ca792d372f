"""Fields and their values: value types, labels, spans on a page, boundaries within a text."""
