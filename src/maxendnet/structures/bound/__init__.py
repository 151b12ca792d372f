"""Structures with examples: recursions over labellings, and what solvers need of them."""
