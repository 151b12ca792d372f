# Each target installs what it needs into .venv. Requirements: python3 (3.11 or newer) with venv and headers, a C++17
# compiler, and PyPI, from which cmake and ninja are installed.

PYTHON ?= python3
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# Examples: make test ARGS="tests/priors -x"; make demo ARGS=--quick; make bench ARGS="--only kernels"
ARGS ?=

VENV := .venv
RUN := $(VENV)/bin/python
# Show errors only.
PIP := $(RUN) -m pip --disable-pip-version-check -qq
# Levels of vector instructions to compile: that of this machine (native), or all levels of a wheel (all).
LEVELS ?= native
# One stamp file per installation: the package with its kernels, and the requirements of demo, tests and lint.
BUILT := $(VENV)/.built-$(LEVELS)
FOR_DEMO := $(VENV)/.demo
FOR_TESTS := $(VENV)/.test
FOR_LINT := $(VENV)/.lint
FOR_RELEASE := $(VENV)/.release
SANITIZED := build/sanitize
KERNELS := $(wildcard src/maxendnet/kernels/*/*.cpp src/maxendnet/kernels/*/*.hpp)
# tests of the kernels, without those that start processes or measure time
KERNEL_TESTS := $(wildcard tests/test_kernels.py tests/structures tests/losses tests/test_backends.py \
  tests/solvers/test_reference_solvers.py tests/solvers/test_smoothing.py tests/solvers/test_potential_ascent.py)
# tests of the text kernels: column files, token features and templates
TEXT_KERNEL_TESTS := $(wildcard tests/text/test_columns.py tests/text/test_token_features.py \
  tests/text/test_templates.py tests/text/test_few_tokens.py)
# tests in which several threads run kernels on the same arrays
THREAD_TESTS := $(wildcard tests/test_backends.py tests/models/test_prediction_caches.py \
  tests/models/test_sequence_binder.py tests/test_fit_in_progress.py tests/losses/test_losses.py \
  tests/structures/test_choice.py tests/solvers/test_parts.py)

# threads of NumPy's linear algebra would compete with the test processes
export OPENBLAS_NUM_THREADS ?= 1

# tests that run without the development packages
OLDEST := build/oldest
CORE_TESTS := $(filter-out tests/web/ tests/experiments/ tests/faults/ tests/fuzz/ tests/test_demo.py tests/test_docs.py tests/test_readme.py, \
  $(wildcard tests/*/ tests/test_*.py))

.PHONY: help setup demo test test-long fuzz sanitize-threads test-oldest test-compilers wheel lock audit lint format check bench bench-check reproduction sanitize clean

help:
	@echo "make demo      fit the six models on two data sets: tables, and a figure in build/demo"
	@echo "make test      run the tests and the examples of the documentation"
	@echo "make check     ruff, clang-format, mypy, the vocabulary check and the tests; run it before a push"
	@echo "make format    format Python and C++"
	@echo "make test-long  also long tests and randomly drawn cases, at every vector width, then make sanitize"
	@echo "make test-compilers  test the kernels compiled by clang++, and as plain C++17"
	@echo "make wheel     build the source distribution and a wheel in dist/, and check them (about five minutes)"
	@echo "make lock      write requirements.lock: the packages of development, with hashes"
	@echo "make audit     known vulnerabilities and licences of these packages, and checks of the workflows"
	@echo "make test-oldest  test the core with the oldest dependencies that pyproject.toml allows"
	@echo "make bench-check  compare the time of small fits with benchmarks/ratios.json (two minutes)"
	@echo "make bench     run the benchmarks, write benchmarks/RESULTS.md (about an hour)"
	@echo "make reproduction  run the paper's experiments at full size (hours, resumable), write docs/reproduction"
	@echo "make sanitize  test the kernels under the address and undefined-behaviour sanitizers"
	@echo "make sanitize-threads  test kernels on threads under the thread sanitizer"
	@echo "make fuzz      fuzz the readers of column files, model files and pages, SECONDS each (600)"
	@echo "make clean     remove build products and the environment"

setup: $(BUILT) $(FOR_TESTS) $(FOR_LINT)

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "maxendnet needs Python 3.11 or newer; choose one with: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) || { \
	  echo "$(PYTHON) -m venv failed; on Debian: apt install python3-venv python3-dev g++"; exit 1; }
	@touch $@

# Without build isolation cmake and nanobind keep their place, so that only changed kernels are compiled again.
$(BUILT): $(VENV)/.made pyproject.toml CMakeLists.txt $(KERNELS)
	@echo "Installing maxendnet in $(VENV) and compiling its kernels (one or two minutes the first time)."
	@$(PYTHON) .ci/requirements.py core build > $(VENV)/requirements.txt
	@$(PIP) install -r $(VENV)/requirements.txt cmake ninja
	@$(PIP) install --no-build-isolation --no-deps -C cmake.define.MAXENDNET_LEVELS=$(LEVELS) -e .
	@rm -f $(VENV)/.built-* && touch $@

$(FOR_DEMO) $(FOR_TESTS) $(FOR_LINT) $(FOR_RELEASE): $(VENV)/.made pyproject.toml
	@echo "Installing the requirements of make $(subst .,,$(@F)) (up to a minute the first time)."
	@$(PYTHON) .ci/requirements.py core $(GROUPS_$(subst .,,$(@F))) > $(VENV)/requirements.txt
	@$(PIP) install -r $(VENV)/requirements.txt
	@touch $@

GROUPS_demo := plot
GROUPS_test := test
GROUPS_release := release
# all optional dependencies, so that mypy sees the same types on every machine
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
	$(RUN) .ci/type_completeness.py
	$(PYTHON) .ci/vocabulary.py

format: $(FOR_LINT)
	$(RUN) -m ruff format
	$(VENV)/bin/clang-format -i $(KERNELS)

check: lint test

# All levels that this processor supports: the order of summation depends on the vector width.
test-long: $(FOR_TESTS)
	$(MAKE) LEVELS=all $(VENV)/.built-all
	set -e; levels="$$($(RUN) -c 'from maxendnet import _kernels; print(*_kernels.levels())')"; \
	for level in $$levels; do \
	  echo "the tests at level $$level"; \
	  MAXENDNET_LEVEL=$$level $(RUN) -m pytest -n $(JOBS) -m "long or not long" --hypothesis-profile=random $(ARGS); \
	done
	$(MAKE) sanitize

# A separate environment with the package installed as by a user, not in editable mode.
test-oldest:
	$(PYTHON) -m venv $(OLDEST)/venv
	$(PYTHON) .ci/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/venv/bin/python -m pip install -qq -c $(OLDEST)/constraints.txt scikit-build-core nanobind cmake ninja
	$(OLDEST)/venv/bin/python -m pip install -qq -c $(OLDEST)/constraints.txt --no-build-isolation \
	  -C build-dir=$(OLDEST)/cmake -C cmake.define.MAXENDNET_LEVELS=native ".[test]"
	$(OLDEST)/venv/bin/python -m pytest -p no:cacheprovider -n $(JOBS) $(CORE_TESTS) $(ARGS)

# Source distribution and wheels in dist/, checked in a fresh environment. Examples: make wheel ARGS=--twice;
# make wheel ARGS="--python python3.11 --python python3.12"
wheel: $(FOR_RELEASE)
	$(RUN) .ci/wheels.py $(ARGS)

# requirements.lock: all packages of development, with hashes
lock: $(FOR_RELEASE)
	$(RUN) .ci/lock.py

# Known vulnerabilities and licences of all packages of the lock file, and a list of the packages that users install.
audit: $(FOR_RELEASE)
	$(RUN) .ci/audit.py $(ARGS)
	$(VENV)/bin/zizmor --offline .github/workflows

bench: $(BUILT) $(FOR_TESTS)
	$(RUN) benchmarks/run_all.py $(ARGS)

bench-check: $(BUILT)
	$(RUN) benchmarks/check.py $(ARGS)

reproduction: $(BUILT) $(FOR_TESTS)
	$(RUN) -m maxendnet reproduce all --jobs $(JOBS) --out build/reproduction \
	  --results docs/reproduction/results --publish docs/reproduction $(ARGS)

# Python itself is not sanitized: the sanitizer runtime is preloaded, and leak detection is off. -S ignores the
# editable installation, which is found by a .pth file.
sanitize: $(BUILT) $(FOR_TESTS)
	$(PIP) install --no-build-isolation --no-deps --upgrade --target $(SANITIZED)/site \
	  -C cmake.define.MAXENDNET_SANITIZE=ON -C build-dir=$(SANITIZED)/cmake .
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so.6)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  PYTHONPATH="$(SANITIZED)/site:$$($(RUN) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	  $(RUN) -S -m pytest -s -p no:xdist -p no:cacheprovider $(KERNEL_TESTS) $(TEXT_KERNEL_TESTS) $(ARGS)

# Only accesses by the kernels are checked: Python and NumPy are not compiled with the sanitizer. Its memory layout
# needs address randomisation to be off.
sanitize-threads: $(BUILT) $(FOR_TESTS)
	$(PIP) install --no-build-isolation --no-deps --upgrade --target $(SANITIZED)-threads/site \
	  -C cmake.define.MAXENDNET_SANITIZE=thread -C build-dir=$(SANITIZED)-threads/cmake .
	LD_PRELOAD="$$($(CXX) -print-file-name=libtsan.so) $$($(CXX) -print-file-name=libstdc++.so.6)" \
	  TSAN_OPTIONS="exitcode=66 halt_on_error=0" \
	  PYTHONPATH="$(SANITIZED)-threads/site:$$($(RUN) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	  setarch -R $(RUN) -S -m pytest -s -p no:xdist -p no:cacheprovider $(THREAD_TESTS) $(ARGS)

# atheris is installed beside the environment, because it is needed for nothing else.
SECONDS ?= 600
fuzz: $(BUILT) $(FOR_TESTS)
	$(PIP) install --no-deps --upgrade --target build/fuzz/site atheris
	set -e; for target in columns model_files pages; do \
	  PYTHONPATH=build/fuzz/site FUZZ_CORPUS=build/fuzz/corpus \
	    $(RUN) tests/fuzz/targets.py $$target -max_total_time=$(SECONDS) -artifact_prefix=build/fuzz/ $(ARGS); \
	  cat build/fuzz/counts-$$target.json; \
	done

# The kernels with another compiler, and without vector extensions.
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
