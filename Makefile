# Each target sets up what it needs in .venv. Wanted: python3 (3.11 or newer) with venv and headers,
# a C++17 compiler, and a package index. cmake and ninja come from the index.

PYTHON ?= python3
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# for instance: make test ARGS="tests/priors -x"; make demo ARGS=--quick; make bench ARGS="--only kernels"
ARGS ?=

VENV := .venv
RUN := $(VENV)/bin/python
# Twice quiet: errors are shown, and no notes on the machine's package index.
PIP := $(RUN) -m pip --disable-pip-version-check -qq
# The kernels of which vector instructions are compiled: of this machine only, or all that a wheel has.
LEVELS ?= native
# What is installed, a file each: the package with its kernels, and what the demonstration, the tests and the checks need.
BUILT := $(VENV)/.built-$(LEVELS)
FOR_DEMO := $(VENV)/.demo
FOR_TESTS := $(VENV)/.test
FOR_LINT := $(VENV)/.lint
SANITIZED := build/sanitize
KERNELS := $(wildcard src/maxendnet/kernels/*/*.cpp src/maxendnet/kernels/*/*.hpp)
# what the kernels do, and nothing that starts processes of its own or measures time
KERNEL_TESTS := $(wildcard tests/test_kernels.py tests/structures tests/losses tests/test_backends.py \
  tests/solvers/test_reference_solvers.py tests/solvers/test_smoothing.py tests/solvers/test_potential_ascent.py)

# numpy's own threads would compete with those of the tests
export OPENBLAS_NUM_THREADS ?= 1

# what runs without the packages that only develop the project
OLDEST := build/oldest
CORE_TESTS := $(filter-out tests/web/ tests/experiments/ tests/test_demo.py tests/test_docs.py tests/test_readme.py, \
  $(wildcard tests/*/ tests/test_*.py))

.PHONY: help setup demo test test-long test-oldest test-compilers lint format check bench bench-check reproduction sanitize clean

help:
	@echo "make demo      the six systems on two data sets: tables, and a figure in build/demo"
	@echo "make test      the tests, also the examples in the documentation"
	@echo "make check     ruff, clang-format, mypy and the tests; run it before a push"
	@echo "make format    lay out Python and C++ as make check wants it"
	@echo "make test-long  also the tests that take long and cases drawn at random, at every vector width, and make sanitize"
	@echo "make test-compilers  the kernels by clang++, and in plain C++17 without vector extensions"
	@echo "make test-oldest  the tests of the core with the oldest packages that pyproject.toml allows"
	@echo "make bench-check  have small fits become slower since benchmarks/ratios.json was written (two minutes)"
	@echo "make bench     benchmarks, written to benchmarks/RESULTS.md (about an hour)"
	@echo "make reproduction  the paper's experiments at full size (about a working day, resumes), then docs/reproduction"
	@echo "make sanitize  the kernels under the address and undefined-behaviour sanitizers"
	@echo "make clean     remove what was built; the environment too"

setup: $(BUILT) $(FOR_TESTS) $(FOR_LINT)

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "maxendnet needs Python 3.11 or newer; give one: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) || { \
	  echo "$(PYTHON) -m venv failed; on Debian: apt install python3-venv python3-dev g++"; exit 1; }
	@touch $@

# Build isolation is off, so that cmake and nanobind stay where they are and a changed kernel is all that is compiled.
$(BUILT): $(VENV)/.made pyproject.toml CMakeLists.txt $(KERNELS)
	@echo "Installing maxendnet in $(VENV) and compiling its kernels; the first time this takes one or two minutes."
	@$(PYTHON) .ci/requirements.py core build > $(VENV)/requirements.txt
	@$(PIP) install -r $(VENV)/requirements.txt cmake ninja
	@$(PIP) install --no-build-isolation --no-deps -C cmake.define.MAXENDNET_LEVELS=$(LEVELS) -e .
	@rm -f $(VENV)/.built-* && touch $@

$(FOR_DEMO) $(FOR_TESTS) $(FOR_LINT): $(VENV)/.made pyproject.toml
	@echo "Installing what make $(subst .,,$(@F)) needs; the first time this takes up to a minute."
	@$(PYTHON) .ci/requirements.py core $(GROUPS_$(subst .,,$(@F))) > $(VENV)/requirements.txt
	@$(PIP) install -r $(VENV)/requirements.txt
	@touch $@

GROUPS_demo := plot
GROUPS_test := test
# the packages that the code imports, so that mypy sees the same types whatever else is installed
GROUPS_lint := lint all

demo: $(BUILT) $(FOR_DEMO)
	$(RUN) -m maxendnet demo --out build/demo $(ARGS)

test: $(BUILT) $(FOR_TESTS)
	$(RUN) -m pytest -n $(JOBS) $(ARGS)

lint: $(FOR_LINT)
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(VENV)/bin/clang-format --dry-run --Werror $(KERNELS)
	$(RUN) -m mypy

# as the checks of `make lint` want it
format: $(FOR_LINT)
	$(RUN) -m ruff format
	$(VENV)/bin/clang-format -i $(KERNELS)

check: lint test

# Every level of the kernels that this processor has: a wider vector adds up in another order.
test-long: $(FOR_TESTS)
	$(MAKE) LEVELS=all $(VENV)/.built-all
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
	$(OLDEST)/venv/bin/python -m pip install -qq -c $(OLDEST)/constraints.txt scikit-build-core nanobind cmake ninja
	$(OLDEST)/venv/bin/python -m pip install -qq -c $(OLDEST)/constraints.txt --no-build-isolation \
	  -C build-dir=$(OLDEST)/cmake ".[test]"
	$(OLDEST)/venv/bin/python -m pytest -p no:cacheprovider -n $(JOBS) $(CORE_TESTS) $(ARGS)

bench: $(BUILT) $(FOR_TESTS)
	$(RUN) benchmarks/run_all.py $(ARGS)

bench-check: $(BUILT)
	$(RUN) benchmarks/check.py $(ARGS)

reproduction: $(BUILT) $(FOR_TESTS)
	$(RUN) -m maxendnet reproduce all --jobs $(JOBS) --out build/reproduction --publish docs/reproduction $(ARGS)

# Python itself is not sanitized: the runtime has to be loaded before it, and what Python never frees is no leak of ours.
# -S keeps the ordinary build, which site finds by a .pth file, out of the way.
sanitize: $(BUILT) $(FOR_TESTS)
	$(PIP) install --no-build-isolation --no-deps --upgrade --target $(SANITIZED)/site \
	  -C cmake.define.MAXENDNET_SANITIZE=ON -C build-dir=$(SANITIZED)/cmake .
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so.6)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  PYTHONPATH="$(SANITIZED)/site:$$($(RUN) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	  $(RUN) -S -m pytest -s -p no:xdist -p no:cacheprovider $(KERNEL_TESTS) $(ARGS)

# The kernels with another compiler, and without vector extensions, as other processors and compilers have them.
test-compilers: $(BUILT) $(FOR_TESTS)
	set -e; \
	for build in "clang CXX=clang++ -C cmake.define.MAXENDNET_LEVELS=native" "plain CXX=$(CXX) -C cmake.define.MAXENDNET_PLAIN=ON -C cmake.define.MAXENDNET_LEVELS=baseline"; do \
	  set -- $$build; folder=build/compilers/$$1; shift; compiler=$$1; shift; \
	  echo "the kernels with $$compiler $$*"; \
	  env $$compiler $(PIP) install --no-build-isolation --no-deps --upgrade --target $$folder/site $$* -C build-dir=$$folder/cmake .; \
	  PYTHONPATH="$$folder/site:$$($(RUN) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	    $(RUN) -S -m pytest -q -p no:xdist -p no:cacheprovider $(KERNEL_TESTS) $(ARGS); \
	done

clean:
	rm -rf build dist $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
