"""Features of tokens."""
