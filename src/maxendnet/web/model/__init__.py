"""Extractor: training on labelled pages and extraction of records."""
