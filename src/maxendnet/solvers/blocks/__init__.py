"""Block-coordinate updates, for all examples together or for parts of them in parallel."""
