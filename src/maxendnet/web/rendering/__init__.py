"""Layout of pages in a browser, for features of position and for visual blocks; optional."""
