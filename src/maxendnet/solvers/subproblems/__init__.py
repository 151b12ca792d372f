"""Subproblems that solvers solve repeatedly."""
