# Two commands matter: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-browser docs lint bench clean

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[web,dask,collections,dev]"
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

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest

# SCREENSHOTS=docs/pictures also writes the pictures of the documentation.
test-browser: $(VENV)/.browser
	SCREENSHOTS=$(SCREENSHOTS) $(BIN)/python -m pytest tests_browser

# The documentation, into site/. A broken link or any other warning fails.
docs: $(VENV)/.docs
	$(BIN)/python docs/make_tutorial.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Damaged files for every reader; FUZZ_SECONDS for all of them together.
FUZZ_SECONDS ?= 600
fuzz: $(VENV)/.dev
	$(BIN)/python tests/fuzz --seconds $(FUZZ_SECONDS) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))

# Kills detect and train at random moments, and compares bytes.
soak: $(VENV)/.dev
	$(BIN)/python tests/soak.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Each benchmark prints one line of JSON last.
bench: $(VENV)/.bench $(VENV)/.browser
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script; done

clean:
	rm -rf $(VENV) demo site .pytest_cache .mypy_cache .ruff_cache
