"""Fields and their values: types, labels, places on a page, boundaries in a text."""
