"""A page to work on: a local server where a person labels saved pages, and a model learns along."""
