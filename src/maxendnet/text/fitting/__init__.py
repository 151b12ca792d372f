"""The steps of `Tagger.fit`.

1. With ``search=True``, `search_constants` (`search.py`) cross-validates a grid of hyper-parameters on ``cv`` folds.
2. For each candidate tag scheme, `calibrate` (`candidates.py`) fits models that hold out up to ``cv`` folds, then fits
   the temperature (`calibration.py`) and the outside bias (`outside_bias.py`) to the held-out sentences.
3. The candidate with the best F1 on held-out sentences is fitted to all sentences, with `validation.py` as callback.

Steps 1 and 2 split the sentences into the same folds (`shuffled_folds`), so step 2 repeats the fits of
step 1 at the best point for the first candidate. The candidates have the same features but different labels.
"""
