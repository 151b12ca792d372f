"""Small problems that solvers solve again and again."""
