# Everything from a fresh clone: `make run`, `make test`. Needs python3 (3.11 or newer) and make, nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input install --no-deps --require-hashes

# A stamp carries the hash of its lock file: a changed lock is installed, an unchanged one costs nothing.
stamp = $(VENV)/$(1)-$(shell cksum < .requirements/$(1).txt | tr ' ' '-')
RUN := $(call stamp,run)
DEV := $(call stamp,dev)

.DEFAULT_GOAL := help
.PHONY: help run test check static bench tour clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  PORT= and DATA_DIR= choose the web server's port and the data folder; more in README.md."

run: $(RUN) ## the whole site on http://127.0.0.1:8000, until Ctrl-C
	@exec $(BIN)/python manage.py up

# The parts go to as many processes as there are cores; whole sites and browsers want the machine to themselves.
PARTS := $(BIN)/python -m pytest -q -n auto --dist worksteal
WHOLE := $(BIN)/python -m pytest

test: $(DEV) ## all tests, the browser's too
	@$(PARTS) -m "not browser and not whole"
	@browser=$$(.ci/chromium) || browser=; \
	if [ -n "$$browser" ]; then CHROMIUM="$$browser" $(WHOLE) -m "browser or whole"; \
	else $(WHOLE) -m whole && .ci/chromium --warn; fi

check: static ## before a commit: format, lint, types, import contracts, migrations, fast tests
	$(PARTS) -m "not browser and not whole"

static: export DATA_DIR := .data-test
static: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run

bench: $(RUN) ## the benchmarks, one JSON object a line; BENCH=name runs one
	@$(BIN)/python manage.py bench $(BENCH)

tour: $(DEV) ## the pictures of the README's tour, made from the demo
	@$(BIN)/python -m tests.browser.tour

clean: ## remove what can be made again; data folders other than the tests' stay
	rm -rf $(VENV) .data-test .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/run-%: | $(BIN)/python
	@echo "Installing what the site needs"
	@$(PIP) -r .requirements/run.txt
	@$(BIN)/python -m compileall -q openwop_ui runs ledger manage.py
	@rm -f $(VENV)/run-* && touch $@

$(VENV)/dev-%: | $(BIN)/python
	@echo "Installing what the tests need"
	@$(PIP) -r .requirements/dev.txt
	@rm -f $(VENV)/dev-* && touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; PYTHON=/path/to/python3 names one." >&2; exit 1; }
	@echo "Creating the virtual environment"
	@$(PYTHON) -m venv --clear $(VENV) \
	  || { rm -rf $(VENV); echo "On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
