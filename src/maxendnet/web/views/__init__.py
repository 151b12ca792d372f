"""Views of pages for feature extraction: leaves, outlines of listings, CSS selectors."""
