# Everything is set up in .venv by the first target that needs it. Wanted: python3 (3.11 or newer) with venv and headers,
# a C++17 compiler, and a package index. cmake and ninja come from the index.

PYTHON ?= python3
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# for instance: make test ARGS="tests/priors -x"; make demo ARGS=--quick; make bench ARGS="--only kernels"
ARGS ?=

VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
PIP := $(RUN) -m pip --disable-pip-version-check
SANITIZED := build/sanitize
KERNELS := $(wildcard src/maxendnet/kernels/*.cpp src/maxendnet/kernels/*.hpp)
# what the kernels do, and nothing that starts processes of its own or measures time
KERNEL_TESTS := $(wildcard tests/test_kernels.py tests/structures tests/losses tests/test_backends.py \
  tests/solvers/test_sdca.py tests/solvers/test_clique_marginals.py tests/solvers/test_smoothing.py)

# numpy's own threads would compete with those of the tests
export OPENBLAS_NUM_THREADS ?= 1

# what runs without the packages that only develop the project
OLDEST := build/oldest
CORE_TESTS := $(filter-out tests/web/ tests/experiments/ tests/test_demo.py tests/test_docs.py tests/test_readme.py, \
  $(wildcard tests/*/ tests/test_*.py))

.PHONY: help setup demo test test-long test-oldest lint format check bench bench-check reproduction sanitize clean

help:
	@echo "make demo      the six systems on two data sets: tables, and a figure in build/demo"
	@echo "make test      the tests, also the examples in the documentation"
	@echo "make check     ruff, clang-format, mypy and the tests; run it before a push"
	@echo "make format    lay out Python and C++ as make check wants it"
	@echo "make test-long  also the tests that take long and cases drawn at random, at every vector width, and make sanitize"
	@echo "make test-oldest  the tests of the core with the oldest packages that pyproject.toml allows"
	@echo "make bench-check  have small fits become slower since benchmarks/ratios.json was written (two minutes)"
	@echo "make bench     benchmarks, written to benchmarks/RESULTS.md (about an hour)"
	@echo "make reproduction  the paper's experiments at full size (about a working day, resumes), then docs/reproduction"
	@echo "make sanitize  the kernels under the address and undefined-behaviour sanitizers"
	@echo "make clean     remove what was built; the environment too"

setup: $(READY)

# Build isolation is off, so that cmake and nanobind stay where they are and a changed kernel is all that is compiled.
# seqeval is published as sources only, and its build needs that isolation: it is installed before.
$(READY): pyproject.toml CMakeLists.txt $(wildcard src/maxendnet/kernels/*)
	@$(RUN) -m pip --version >/dev/null 2>&1 || { \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "maxendnet needs Python 3.11 or newer; give one: make PYTHON=/path/to/python3"; exit 1; }; \
	  $(PYTHON) -m venv --clear $(VENV) || { \
	    echo "$(PYTHON) -m venv failed; on Debian: apt install python3-venv python3-dev g++"; exit 1; }; }
	@echo "Setting up $(VENV); the first time this takes some minutes."
	@$(RUN) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
	  > $(VENV)/build-requirements.txt
	$(PIP) install --quiet -r $(VENV)/build-requirements.txt cmake ninja "seqeval>=1.2.2"
	$(PIP) install --quiet --no-build-isolation -e ".[dev]"
	@touch $@

demo: $(READY)
	$(RUN) -m maxendnet demo --out build/demo $(ARGS)

test: $(READY)
	$(RUN) -m pytest -n $(JOBS) $(ARGS)

lint: $(READY)
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(VENV)/bin/clang-format --dry-run --Werror $(KERNELS)
	$(RUN) -m mypy

# as the checks of `make lint` want it
format: $(READY)
	$(RUN) -m ruff format
	$(VENV)/bin/clang-format -i $(KERNELS)

check: lint test

# Every level of the kernels that this processor has: a wider vector adds up in another order.
test-long: $(READY)
	set -e; levels="$$($(RUN) -c 'from maxendnet import _kernels; print(*_kernels.levels())')"; \
	for level in $$levels; do \
	  echo "the tests at level $$level"; \
	  MAXENDNET_LEVEL=$$level $(RUN) -m pytest -n $(JOBS) -m "long or not long" --hypothesis-profile=random $(ARGS); \
	done
	$(MAKE) sanitize

# An environment of its own, with the package installed as users do and not as a link to the sources.
test-oldest:
	$(PYTHON) -m venv $(OLDEST)/venv
	$(PYTHON) .ci/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/venv/bin/python -m pip install --quiet -c $(OLDEST)/constraints.txt scikit-build-core nanobind cmake ninja seqeval
	$(OLDEST)/venv/bin/python -m pip install --quiet -c $(OLDEST)/constraints.txt --no-build-isolation \
	  -C build-dir=$(OLDEST)/cmake ".[test]"
	$(OLDEST)/venv/bin/python -m pytest -p no:cacheprovider -n $(JOBS) $(CORE_TESTS) $(ARGS)

bench: $(READY)
	$(RUN) benchmarks/run_all.py $(ARGS)

bench-check: $(READY)
	$(RUN) benchmarks/check.py $(ARGS)

reproduction: $(READY)
	$(RUN) -m maxendnet reproduce all --jobs $(JOBS) --out build/reproduction --publish docs/reproduction $(ARGS)

# Python itself is not sanitized: the runtime has to be loaded before it, and what Python never frees is no leak of ours.
# -S keeps the ordinary build, which site finds by a .pth file, out of the way.
sanitize: $(READY)
	$(PIP) install --quiet --no-build-isolation --no-deps --upgrade --target $(SANITIZED)/site \
	  -C cmake.define.MAXENDNET_SANITIZE=ON -C build-dir=$(SANITIZED)/cmake .
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so.6)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  PYTHONPATH="$(SANITIZED)/site:$$($(RUN) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	  $(RUN) -S -m pytest -s -p no:xdist -p no:cacheprovider $(KERNEL_TESTS) $(ARGS)

clean:
	rm -rf build dist $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
