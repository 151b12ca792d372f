"""The hierarchical model of the paper: a tree of visual blocks, whose inner blocks have labels and features too."""
