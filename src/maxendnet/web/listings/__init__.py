"""Listings: pages with several items, each of which becomes a record."""
