"""Model files and checkpoints: numbers and names with a checksum, never code."""
