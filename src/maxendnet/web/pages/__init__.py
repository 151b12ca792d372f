"""Pages: files, parsing, rendering, structured data."""
