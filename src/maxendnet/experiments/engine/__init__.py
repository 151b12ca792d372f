"""Shared code of the experiments: cells, data, figures, reports."""
