"""The steps of `Tagger.fit`.

1. `search_constants` (`search.py`), with ``search=True``: every point of a grid of hyper-parameters on ``cv`` folds.
2. `calibrate` (`candidates.py`), for each candidate tag scheme: fits on up to ``cv`` folds, then the temperature
   (`calibration.py`) and the outside bias (`outside_bias.py`) on their held-out sentences.
3. The candidate with the best F1 on held-out sentences is fitted to all sentences, with `validation.py` as callback.

Steps 1 and 2 split the sentences into the same folds (`shuffled_folds`), so that fits of step 1 at the best point are
fits that step 2 repeats for the first candidate. The candidates share features, and differ in labels.
"""
