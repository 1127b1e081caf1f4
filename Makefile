# Every target prepares .venv itself when it is missing or older than pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.komd-installed

.PHONY: demo test test-portable check image bench bench-msd bench-scale bench-filter bench-spark experiments accuracy screenshots format clean

demo: $(STAMP)  ## generate a catalogue, fit, compare, recommend, explain
	$(BIN)/komd demo

test: $(STAMP)  ## all tests; those on real data run when KOMD_DATA (or ../shared/data) is there
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests

# The oldest instructions that BLAS and Numba know: what holds here and on this processor holds on those in between.
test-portable: $(STAMP)  ## the numerical tests again, as on another processor
	OPENBLAS_CORETYPE=Prescott OPENBLAS_NUM_THREADS=1 NUMBA_CPU_NAME=generic \
	  $(BIN)/python -m pytest -n 2 --dist loadgroup tests/_core tests/kernels tests/matrix tests/engine tests/models tests/contracts

check: $(STAMP)  ## format, lint, types, doctests, direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q src tests/test_source.py tests/test_imports.py

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
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache

# The stamp names the folder it was made in: a copied or moved .venv is stale as well.
$(STAMP): pyproject.toml
	@if [ ! -x $(BIN)/python ] || [ "$$(cat $(STAMP) 2>/dev/null)" != "$(CURDIR)" ]; then rm -rf .venv; $(PYTHON) -m venv .venv; fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@echo "$(CURDIR)" > $(STAMP)
