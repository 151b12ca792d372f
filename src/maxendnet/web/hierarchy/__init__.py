"""Hierarchical model of the paper: a tree of visual blocks with labels and features for inner blocks."""
