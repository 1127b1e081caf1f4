# Every target prepares .venv itself when it is missing or older than pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.komd-installed
# Tests start hundreds of processes, each of which would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-thorough test-portable test-oldest coverage coverage-core check docs linkcheck follow-docs package image bench bench-msd bench-scale bench-filter bench-spark bench-history experiments accuracy screenshots format clean

demo: $(STAMP)  ## generate a catalogue, fit, compare, recommend, explain
	$(BIN)/komd demo

# More processes than cores, because tests of the service and of Spark often wait; so BLAS has one thread in each, unless
# a test asks for more.
test: $(STAMP)  ## all tests; those on real data run when KOMD_DATA (or ../shared/data) is there
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 4 tests

test-thorough:  ## the same with more random trials (kills, generated inputs, variants), as CI runs them
	KOMD_THOROUGH=1 $(MAKE) test

# The oldest instructions that BLAS and Numba know: what holds here and on this processor holds on those in between.
test-portable: $(STAMP)  ## the numerical tests again, as on another processor
	OPENBLAS_CORETYPE=Prescott OPENBLAS_NUM_THREADS=1 NUMBA_CPU_NAME=generic \
	  $(BIN)/python -m pytest -n 2 tests/_core tests/kernels tests/matrix tests/engine tests/models tests/contracts

check: $(STAMP)  ## format, lint, types, spelling, doctests, direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/codespell *.md docs src benchmarks experiments deploy tools
	$(BIN)/python -m pytest -q src tests/test_source.py tests/test_imports.py

# Machine code is compiled anew, so that what writes it is seen; compiled bodies themselves are left out (pyproject.toml).
coverage: $(STAMP)  ## how much of src/komd the tests run, outside of compiled bodies; fails below 95 %
	rm -rf .coverage && mkdir .coverage
	NUMBA_CACHE_DIR=$(CURDIR)/.coverage/machine-code \
	  $(BIN)/python -m pytest -q -n 2 --cov --cov-report= tests
	$(BIN)/python -m coverage xml -q -o coverage.xml
	$(BIN)/python -m coverage report --fail-under 95

coverage-core: $(STAMP)  ## the compiled bodies, run as Python by the tests of the core
	mkdir -p .coverage
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q --cov --cov-config tools/coverage_core.toml --cov-report=term tests/_core

# Every direct dependency at the oldest version that pyproject.toml allows.
OLDEST := .venv-oldest/bin
test-oldest:  ## the library's tests with the oldest dependencies
	rm -rf .venv-oldest && $(PYTHON) -m venv .venv-oldest
	$(OLDEST)/python -m pip install --quiet --disable-pip-version-check uv
	$(OLDEST)/uv pip install --quiet --python $(OLDEST)/python --resolution lowest-direct --editable '.[plots,rivals,serve,tune]'
	$(OLDEST)/uv pip install --quiet --python $(OLDEST)/python --editable '.[plots,rivals,serve,test,tune]'
	$(OLDEST)/python -m pytest -q -n 2 tests/_core tests/kernels tests/matrix tests/engine tests/models \
	  tests/data tests/evaluation tests/sparsity tests/tuning tests/cli tests/serve/test_api.py tests/serve/test_connections.py

package: $(STAMP)  ## wheel and source archive: built, installed into an empty environment, tested there
	$(BIN)/python tools/check_package.py

docs: $(STAMP)  ## the site, with tutorials executed, into docs/_build/html; a warning or a broken link is an error
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --jobs 2 docs docs/_build/html

follow-docs:  ## README and the site as a new user follows them: an empty environment, every command; some minutes
	$(PYTHON) tools/follow_docs.py

linkcheck: $(STAMP)  ## links of the docs to other sites; needs the network
	$(BIN)/python -m sphinx --quiet --builder linkcheck -D nb_execution_mode=off docs docs/_build/linkcheck

image:  ## the steps of the Dockerfile without Docker, and the image they make, tried; Linux, as root
	$(PYTHON) deploy/run_dockerfile.py

bench: $(STAMP)  ## speed as ratios to peers, all in one run; writes docs/results/performance.md
	$(BIN)/python -m benchmarks

bench-msd: $(STAMP)  ## the experiment at the size of the Million Song Dataset, resumable; the same page
	$(BIN)/python -m benchmarks.msd

bench-scale: $(STAMP)  ## how time and memory grow as users, items and activity double; the same page
	$(BIN)/python -m benchmarks.scale

bench-filter: $(STAMP)  ## what filters cost: eigenvectors beside Lanczos, scoring beside K unfiltered; the same page
	$(BIN)/python -m benchmarks.filter

bench-spark: $(STAMP)  ## komd on Spark beside Spark's ALS; needs Java; writes docs/results/scale.md
	$(BIN)/python -m benchmarks.spark
	$(BIN)/python -m experiments.scale

bench-history: $(STAMP)  ## ratios of all benchmarks over time, committed figures added; writes docs/results/history.md
	$(BIN)/python -m benchmarks.history

experiments: $(STAMP)  ## the paper's tables and figures, resumable; writes docs/results/reproduction.md
	$(BIN)/python -m experiments

accuracy: $(STAMP)  ## every model tuned, compared on eight data sets: hours, resumable; writes docs/results/accuracy.md
	$(BIN)/python -m experiments.accuracy

screenshots: $(STAMP)  ## the page of komd serve, taken in Chromium; writes docs/guide/serve.png
	$(BIN)/python docs/screenshots.py

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-oldest .coverage docs/_build docs/reference/api .pytest_cache .mypy_cache .ruff_cache

# The stamp names the folder it was made in: a copied or moved .venv is stale as well.
$(STAMP): pyproject.toml
	@if [ ! -x $(BIN)/python ] || [ "$$(cat $(STAMP) 2>/dev/null)" != "$(CURDIR)" ]; then rm -rf .venv; $(PYTHON) -m venv .venv; fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@echo "$(CURDIR)" > $(STAMP)
