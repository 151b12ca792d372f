"""Listings: pages with several records."""
