"""Helpers without knowledge of the domain: files, checks, warnings."""
