"""Features of leaves and blocks."""
