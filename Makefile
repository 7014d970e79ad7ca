# Needs python3 >= 3.11, with its venv module, and make. Everything else comes from the locks.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLER := $(VENV)/.installer
RUNTIME := $(VENV)/.runtime
DEVELOPMENT := $(VENV)/.development
# Many tests wait more than they work. By file, so that what a module starts is started once.
WORKERS := -n $(shell expr $$(nproc) + 2) --dist loadfile --no-loadscope-reorder
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python

# The suite and its tests start processes, each of which would compile anew all that it imports.
unexport PYTHONDONTWRITEBYTECODE

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run demo test fuzz lint format stubs image lock upgrade guarantees containers mutations bench figures docs clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

run: $(RUNTIME) ## the whole suite on this machine, embedded database included; data in .fencepost/
	@$(BIN)/python -m services

demo: $(RUNTIME) ## one real webhook becomes one review, on free ports with throw-away data
	@$(BIN)/python -m examples.demo

test: $(DEVELOPMENT) ## every test that needs no container engine and no browser
	@$(BIN)/python -m pytest $(WORKERS)

fuzz: $(DEVELOPMENT) ## ingress against odd input, FUZZ_EXAMPLES of it (20,000 unless said)
	@FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-20000} $(BIN)/python -m pytest -n auto --dist worksteal tests/services/ingress -m fuzz

lint: $(DEVELOPMENT) ## style, types, import contracts, proto lint and breaking, fresh stubs and locks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tools.protolint
	$(BIN)/python -m tools.stubs --check
	$(BIN)/python -m tools.locks --check $(if $(CI),--strict)

format: $(DEVELOPMENT) ## mends what can be mended by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

stubs: $(DEVELOPMENT) ## generates the Python stubs from protos/ into sdk/
	@$(BIN)/python -m tools.stubs

image: $(DEVELOPMENT) ## takes the contracts as they are for the released ones (protos/image.binpb)
	@$(BIN)/python -m tools.protolint --release

lock: $(DEVELOPMENT) ## resolves the locks anew, keeping every pin that still fits
	@$(BIN)/python -m tools.locks

upgrade: $(DEVELOPMENT) ## resolves the locks anew to the newest releases
	@$(BIN)/python -m tools.locks --upgrade

guarantees: $(DEVELOPMENT) ## each rule, its tests and their last result; runs what is missing or stale
	@$(BIN)/python -m tools.guarantees

containers: $(DEVELOPMENT) ## builds the image and tries compose.yaml on a container engine, brought if there is none
	@$(BIN)/python -m tools.containers

mutations: $(DEVELOPMENT) ## takes each recorded guard out and expects its tests to fail
	@$(BIN)/python -m tools.mutations

bench: $(DEVELOPMENT) ## ours and peers on one database in one run, for minutes; ONLY="part …" for some
	@$(BIN)/python -m bench $(ONLY)

figures: $(DEVELOPMENT) ## time to the first publication, memory, idle cost and the tests' time, measured now
	@$(BIN)/python -m tools.figures

docs: $(DEVELOPMENT) ## writes the generated pages under docs/
	@$(BIN)/python -m tools.docs

clean: ## removes the environment and the caches, never data
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# The installer alone is fetched by pip (slow); it then makes the rest (fast). An older environment
# is brought up to date in place.
$(INSTALLER): requirements-install.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11: make PYTHON=python3.11 …" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@if test -x $(BIN)/uv; then $(INSTALL) --require-hashes -r $<; \
	  else $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<; fi
	@touch $@

$(RUNTIME): requirements.lock pyproject.toml $(INSTALLER)
	@echo "installing from requirements.lock"
	@$(INSTALL) --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# A superset of the run-time lock, with the same pins; what no lock names any more is removed.
$(DEVELOPMENT): requirements-dev.lock pyproject.toml $(INSTALLER)
	@echo "installing from requirements-dev.lock"
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements-dev.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $(RUNTIME) $@
