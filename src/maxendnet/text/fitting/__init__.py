"""What a tagger fits beside its weights: tag scheme, bias of O, temperature, early stopping."""
