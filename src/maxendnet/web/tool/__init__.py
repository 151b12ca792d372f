"""Commands, evaluation and toy pages."""
