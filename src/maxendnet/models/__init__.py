"""Model files and checkpoints: numbers and names under a checksum, never code."""
