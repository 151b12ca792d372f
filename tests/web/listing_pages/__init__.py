"""Synthetic listings of events and staff with known items, in templates with different markup.

Used by the tests of listings and by ``benchmarks/web_listings.py``.
"""
