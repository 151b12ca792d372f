"""Layout of pages, measured by a browser: optional, for features of position and for visual blocks."""
