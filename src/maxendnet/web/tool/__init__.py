"""The command line for web pages."""
