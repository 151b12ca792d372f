"""Generated listings with known records: made-up events and staff, in templates that differ in markup.

Used by the tests of listings and by ``benchmarks/web_listings.py``.
"""
