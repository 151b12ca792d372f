"""Weight vectors: their layout, padding for the kernels, and a cache of derived values."""
