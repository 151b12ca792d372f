"""Sentences and tags from files and records."""
