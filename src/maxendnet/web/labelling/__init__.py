"""Labelling tool: a local web application that trains a model in the background."""
