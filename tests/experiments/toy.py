"""An experiment of no meaning, quick and easy to stop; importable by the processes of the engine and as a script."""

import os
import sys
import time
from pathlib import Path

import numpy as np

from maxendnet.experiments.engine import statistics
from maxendnet.experiments.engine.cells import run_cells, workers
from maxendnet.experiments.engine.comparison import card_of
from maxendnet.experiments.engine.experiment import Experiment

EXPONENT = 3


def cells(scale):
    return [{"place": k, "log": os.environ.get("TOY_LOG", ""), "gate": os.environ.get("TOY_GATE", "")}
            for k in range({"full": 12, "quick": 6, "tiny": 3}[scale])]  # fmt: skip


def run(settings, seed, data):
    if settings["log"]:
        with open(settings["log"], "a") as file:
            file.write(f"{settings['place']}\n")
    while settings["gate"] and settings["place"] >= 4 and not os.path.exists(settings["gate"]):
        time.sleep(0.01)
    rng = np.random.default_rng([seed, settings["place"]])
    # a product whose last bits depend on the order of summation, and so on the number of BLAS threads
    a = rng.normal(size=(200, 200))
    return {"value": float(np.linalg.matrix_power(a, EXPONENT).sum()), "missing": float("nan"), "list": np.arange(2)}


def fail_once(settings, seed, data):
    if settings["place"] == 1:
        raise RuntimeError("no luck")
    return run(settings, seed, data)


def interrupted(settings, seed, data):
    raise KeyboardInterrupt


def without_data(settings, seed, data):
    return {}


def cards(rows):
    test = statistics.paired([row["value"] for row in rows])
    return [card_of("above", "The values are above zero.", {"values": test}, statistics.is_positive)]


def draw(figure, rows):
    figure.subplots().plot([row["value"] for row in rows])


TOY = Experiment("toy", "Is it a toy?", "nowhere", "Draws numbers.", cells, run, cards, draw)

if __name__ == "__main__":
    with workers(int(sys.argv[2])) as pool:
        run_cells(TOY, Path(sys.argv[1]), pool=pool, progress=False)
