"""Claims of the paper and beyond, one experiment per module."""
