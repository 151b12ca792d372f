"""Labelling tool: a local web application with training in the background."""
