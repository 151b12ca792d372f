"""Forged model files of several libraries: change one value in a valid file, load it, and predict.

    python benchmarks/forged_models.py maxendnet 500
    python benchmarks/forged_models.py xgboost 500      # needs xgboost
    python benchmarks/forged_models.py skops 500        # needs skops

Each file is used in a child process. An "error" is any exception, an "answer" any prediction of finite numbers; a crash
or hang is a defect. Every checksum is computed again, because a forger can do that too.
"""

from __future__ import annotations

import copy
import io
import json
import os
import random
import signal
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np

SCRATCH = Path(tempfile.mkdtemp())
VALUES = [0, 1, -1, 2, 99999, 2**31 - 1, -(2**31), 0.5, 1e30, "x", None, [], {}]
SECONDS = 20
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)


def leaves(plain, path=()):
    """Yield the paths of all numbers, strings and other simple values."""
    items = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else None
    if items is None:
        yield path
        return
    for key, value in items:
        yield from leaves(value, (*path, key))


def with_change(plain, rng):
    """Return a copy with another value at a random path."""
    plain = copy.deepcopy(plain)
    *path, last = rng.choice(list(leaves(plain)))
    place = plain
    for key in path:
        place = place[key]
    value = rng.choice(VALUES)
    place[last] = str(value) if isinstance(place[last], str) and rng.random() < 0.7 else value
    return plain


def with_change_of_array(array, rng):
    """Return a copy with another value at a random place, of a random field if there are fields."""
    array = array.copy()
    flat = (array[rng.choice(array.dtype.names)] if array.dtype.names else array).reshape(-1)
    if flat.size:
        flat[rng.randrange(flat.size)] = np.array(rng.choice([0, -1, 1, 99])).astype(flat.dtype)
    return array


class Maxendnet:
    def __init__(self):
        from maxendnet import L2CRF, load
        from maxendnet.estimators.file import KIND
        from maxendnet.models.container import read_sealed

        self.path, self.kind, self.load = SCRATCH / "model.medn", KIND, load
        L2CRF(structure="independent").fit(X, Y).save(self.path)
        self.header, self.arrays = read_sealed(self.path, KIND)

    def forge(self, rng):
        from maxendnet.models.container import write_sealed

        header, arrays = self.header, dict(self.arrays)
        if rng.random() < 0.5:
            name = rng.choice(sorted(arrays))
            arrays[name] = with_change_of_array(arrays[name], rng)
        else:
            header = with_change(header, rng) | {"format": self.header["format"]}
        write_sealed(self.path, self.kind, header, arrays)

    def use(self):
        return np.concatenate(list(self.load(self.path).predict_marginals(X)))


class Xgboost:
    def __init__(self):
        import xgboost

        self.xgboost, self.path = xgboost, SCRATCH / "model.json"
        settings = {"max_depth": 3, "objective": "binary:logistic", "nthread": 1}
        xgboost.train(settings, xgboost.DMatrix(X, Y), 3).save_model(self.path)
        self.content = json.loads(self.path.read_text())

    def forge(self, rng):
        self.path.write_text(json.dumps(with_change(self.content, rng)))

    def use(self):
        booster = self.xgboost.Booster()
        booster.load_model(self.path)
        return booster.predict(self.xgboost.DMatrix(X, nthread=1))


class Skops:
    def __init__(self):
        import skops.io
        from sklearn.ensemble import RandomForestClassifier

        self.io = skops.io
        content = skops.io.dumps(RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, Y))
        self.trusted = skops.io.get_untrusted_types(data=content)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            self.files = {name: archive.read(name) for name in archive.namelist()}

    def forge(self, rng):
        files = dict(self.files)
        if rng.random() < 0.5:
            name = rng.choice(sorted(name for name in files if name.endswith(".npy")))
            out = io.BytesIO()
            np.save(out, with_change_of_array(np.load(io.BytesIO(files[name])), rng))
            files[name] = out.getvalue()
        else:
            files["schema.json"] = json.dumps(with_change(json.loads(files["schema.json"]), rng)).encode()
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        self.content = out.getvalue()

    def use(self):
        return self.io.loads(self.content, trusted=self.trusted).predict_proba(X)


def result_of(library):
    """Use the forged file in a child process; return what happened."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        try:
            finite = np.isfinite(np.asarray(library.use(), dtype=float)).all()
            answer = "answer" if finite else "answer that is not finite"
        except Exception:
            answer = "error"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    return answer or ("hang" if os.WTERMSIG(status) == signal.SIGALRM else "crash")


def main():
    name, n_files = sys.argv[1], int(sys.argv[2])
    library = {"maxendnet": Maxendnet, "xgboost": Xgboost, "skops": Skops}[name]()
    counts = Counter()
    for seed in range(n_files):
        library.forge(random.Random(seed))
        counts[result_of(library)] += 1
    print(name, dict(counts))


if __name__ == "__main__":
    main()
