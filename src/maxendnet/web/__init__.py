"""Web data extraction: pages in, records out. Needs the extra ``web``; the core never imports it."""
