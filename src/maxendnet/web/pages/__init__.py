"""Read saved pages: files, encodings, HTML parsing and structured data."""
