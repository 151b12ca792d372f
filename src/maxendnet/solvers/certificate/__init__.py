"""Dual points that certify a solution."""
