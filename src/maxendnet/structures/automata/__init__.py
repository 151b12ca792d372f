"""Finite automata over labels, for chains of higher order, rules and durations."""
