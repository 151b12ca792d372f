"""The command line for text."""
