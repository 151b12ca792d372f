"""Pages prepared for features: leaves, blocks, runs of text, selectors."""
