"""Weight vectors: layout, padding for the kernels, cache."""
