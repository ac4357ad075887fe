# Exhume: `make` lists the targets. Each target does its own set-up, once.
.DEFAULT_GOAL := help
SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
FLOWER := .venv-flower
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --root-user-action=ignore -c constraints.txt
# The first Python 3.11 to 3.14 on the PATH; override with `make PYTHON=/path/to/python ...`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null && echo $$p && break; done)

.PHONY: help audit serve test test-all lint bench performance mutants paper docs clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Exhume needs Python 3.11, 3.12, 3.13 or 3.14 on the PATH (or make PYTHON=...)." >&2; exit 2; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Exhume"
	@$(PIP_INSTALL) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Exhume and its development tools"
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/.base

$(VENV)/.extras: $(VENV)/.dev
	@echo "Installing the extras vision, decode, serve, postgresql, docs, oracle and service-tests"
	@$(PIP_INSTALL) -e '.[dev,vision,decode,serve,postgresql,docs,oracle,service-tests]'
	@touch $@

$(VENV)/.docs: $(VENV)/.base
	@echo "Installing the extra docs"
	@$(PIP_INSTALL) -e '.[docs]'
	@touch $@

$(VENV)/.serve: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Exhume with the extra serve"
	@$(PIP_INSTALL) -e '.[serve]'
	@touch $@ $(VENV)/.base

audit: $(VENV)/.base  ## Audit the paper's server on the bundled digits; writes exhume-report/
	@$(BIN)/exhume audit

serve: $(VENV)/.serve  ## Serve the bundled digits with simulated clients and a dashboard, until Ctrl-C
	@$(BIN)/exhume serve --demo

test: lint  ## Run every check: format, lint, types, import contracts, tests
	@$(BIN)/python -m pytest -n 2 -m 'not extras and not flower'

$(FLOWER)/.ready: pyproject.toml constraints-flower.txt | $(BIN)/python
	@echo "Creating $(FLOWER): Flower's pins are not those of the development tools"
	@$(BIN)/python -m venv $(FLOWER)
	@$(FLOWER)/bin/python -m pip install --quiet --disable-pip-version-check --root-user-action=ignore -c constraints-flower.txt \
		-e '.[flower]' pytest pytest-xdist hypothesis psutil
	@touch $@

test-all: $(VENV)/.extras $(FLOWER)/.ready  ## Install the extras and Flower, and run the tests that need them
	@$(BIN)/python -m pytest -m extras -n 2
	@$(BIN)/python -m pytest -m 'not extras' -n 2 tests/decode
	@$(FLOWER)/bin/python -m pytest -m flower -n 2 --dist loadfile tests/flower

lint: $(VENV)/.dev  ## Check format, lint, types and import contracts
	@$(BIN)/ruff format --check --quiet . || { $(BIN)/ruff format --diff .; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(VENV)/.dev $(VENV)/.serve  ## Run the benchmarks (ratios to a named reference, same run)
	@for b in benchmarks/*.py; do test $$b = benchmarks/performance.py || $(BIN)/python $$b || exit 1; done

performance: $(VENV)/.dev  ## Measure everything in docs/performance.md and renew its tables (half an hour)
	@$(BIN)/python benchmarks/performance.py

mutants: $(VENV)/.dev  ## Break the code on purpose, a fixed sample of times: some test must notice each
	@$(BIN)/python tools/mutants.py

$(VENV)/.vision: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Exhume with the extra vision (torch)"
	@$(PIP_INSTALL) -e '.[vision]'
	@touch $@ $(VENV)/.base

$(VENV)/.dist: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what builds and checks packages"
	@$(PIP_INSTALL) -e '.[dist]'
	@touch $@

dist: $(VENV)/.dist  ## Build the wheel and the source archive into dist/, and check them for a package index
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist . > /dev/null
	@$(BIN)/python -m twine check --strict dist/*

paper: $(VENV)/.vision  ## Reproduce the paper's tables and figures (hours; fetches MNIST, CIFAR-10 and weights)
	@$(BIN)/exhume paper run all

docs: $(VENV)/.docs  ## Build the documentation site into site/; a warning is an error
	@$(BIN)/sphinx-build -q -W --keep-going -b html docs site

clean:  ## Remove the environment, caches and generated results
	@rm -rf $(VENV) $(FLOWER) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache exhume-report results bench-results dist site
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
