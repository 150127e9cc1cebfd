# Two commands matter: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-browser docs wheel check-wheel fuzz fuzz-bounds load soak lint bench clean

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[web,dask,collections,net,dev]"
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	touch $@

# Selenium, and Debian's chromium with its driver where they are missing and can be installed.
$(VENV)/.browser: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[browser]"
	@command -v chromedriver > /dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null \
		&& apt-get update -qq && apt-get install -y -qq chromium chromium-driver; } \
		|| { echo "install chromium and chromedriver first (Debian: apt install chromium-driver)"; exit 1; }
	touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	touch $@

demo: $(VENV)/.dev
	$(BIN)/halfseen demo -o demo

# One process a core, each with whole files: what a module trains or starts, it does once.
test: $(VENV)/.dev lint
	$(BIN)/python -m pytest -n auto --dist loadfile

# SCREENSHOTS=docs/pictures also writes the pictures of the documentation.
test-browser: $(VENV)/.browser
	SCREENSHOTS=$(SCREENSHOTS) $(BIN)/python -m pytest tests_browser

# The documentation, into site/. A broken link or any other warning fails.
docs: $(VENV)/.docs
	$(BIN)/python docs/make_tutorial.py
	$(BIN)/python docs/make_walk.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

# The wheel in a fresh environment, by this Python and by the newest that pyenv has.
PYTHONS := $(BIN)/python $(lastword $(sort $(wildcard $(HOME)/.pyenv/versions/3.1[2-9].*/bin/python)))
check-wheel: wheel
	@set -e; for python in $(PYTHONS); do .ci/check_wheel $$python dist/*.whl; done

# Damaged files for every reader; FUZZ_SECONDS for all of them together.
FUZZ_SECONDS ?= 600
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))

# Kills detect and train at random moments, and compares bytes.
soak: $(VENV)/.dev
	$(BIN)/python -m tests.soak
	$(BIN)/python -m tests.worst_files

# The fuzzer's corpus with kernels that check their bounds, which are compiled apart.
fuzz-bounds: $(VENV)/.dev
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/bounds $(BIN)/python -m tests.fuzz --corpus --seed 1

# Two hundred connections to the page's server for five minutes.
load: $(VENV)/.dev
	$(BIN)/python tests/load.py --connections 200 --seconds 300

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Each benchmark prints one line of JSON last.
bench: $(VENV)/.bench $(VENV)/.browser
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script; done

clean:
	rm -rf $(VENV) demo dist site .pytest_cache .mypy_cache .ruff_cache
