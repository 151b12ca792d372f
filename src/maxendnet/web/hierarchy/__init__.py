"""Hierarchical model of the paper: a tree of visual blocks, in which inner blocks have labels and features too."""
