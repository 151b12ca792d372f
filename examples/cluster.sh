#!/bin/sh
# Start a Dask scheduler and two workers on this machine, and fit a model on them.
# Needs: pip install 'maxendnet[dask]'
set -e
ADDRESS=tcp://127.0.0.1:8786

dask scheduler --host 127.0.0.1 --port 8786 --dashboard-address 127.0.0.1:8787 &
SCHEDULER=$!
dask worker $ADDRESS --host 127.0.0.1 --dashboard-address 127.0.0.1:0 --nworkers 2 --nthreads 1 &
WORKERS=$!
trap 'kill $WORKERS $SCHEDULER' EXIT

python - <<END
import numpy as np
from maxendnet import L2CRF
from maxendnet.backends import Dask
from maxendnet.solvers import LBFGS

rng = np.random.default_rng(0)
X = [rng.normal(size=(10, 20)) for _ in range(2000)]
y = [x.argmax(axis=1).tolist() for x in X]
model = L2CRF(solver=LBFGS(), backend=Dask("$ADDRESS"), verbose=2).fit(X, y)
print(model.solver_, model.gap_)
END
