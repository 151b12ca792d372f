"""Bound structures: structures with examples."""
