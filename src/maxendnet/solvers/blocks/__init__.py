"""Updates of one example at a time, in one or several parts of the examples."""
