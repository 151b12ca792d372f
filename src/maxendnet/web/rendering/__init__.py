"""Layout of pages in a browser (optional), for position features and visual blocks."""
