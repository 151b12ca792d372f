"""Small tools that know nothing of models: names imported when they are first used, files written whole."""
