"""Finite automata over labels: chains of higher order, rules and durations."""
