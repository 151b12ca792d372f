"""The extractor: from pages to records."""
