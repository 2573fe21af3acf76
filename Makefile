# Every target sets up what it needs. `make` alone lists them.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SITE := .venv-site
UV := $(shell command -v uv 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help install check test proofs audit fuzz mutants demo record bench faults docs site lock up down clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements.lock pyproject.toml
ifdef UV
	uv venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	uv pip install --quiet --python $(BIN)/python -r requirements.lock
	uv pip install --quiet --python $(BIN)/python --no-deps -e .
else
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
endif
	@touch $(READY)

install: $(READY) ## make .venv with everything in it

check: $(READY) ## style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: $(READY) ## the test suite but for the proofs; under ten minutes on two cores
	$(BIN)/python -m pytest -n 3 --dist loadgroup -m "not proof" # some wait for servers and leases

proofs: $(READY) ## the dearest tests: kills, nights, races; some ten minutes more
	$(BIN)/python -m pytest -n 3 --dist loadgroup -m proof

audit: $(READY) ## look up the pinned packages in the list of known vulnerabilities
	$(BIN)/python scripts/audit.py

fuzz: $(READY) ## throw damaged input at every parser, FUZZ_S seconds each (30); wants atheris, else uses hypothesis
	$(BIN)/python -m bench.fuzz --seconds $(or $(FUZZ_S),30)

mutants: $(READY) ## break each rule in one place and see a test fail; some 20 minutes (all of a module: MUTANTS='*.guards.*')
ifdef UV
	uv pip install --quiet --python $(BIN)/python -e '.[mutants]'
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[mutants]'
endif
	nice $(BIN)/python scripts/mutants.py $(if $(MUTANTS),'$(MUTANTS)')

demo: $(READY) ## learn from the bundled conversations and ask three questions, without a key
	@$(BIN)/slowwave demo

record: $(READY) ## say which prompts of the examples lack a recorded answer; with ANTHROPIC_API_KEY, ask for them
	$(BIN)/python scripts/record.py

bench: $(READY) ## measure speed and recall; results go to bench/results
	$(BIN)/python -m bench

faults: $(READY) ## kill every flow at its durable steps, with -9, and run it again
	$(BIN)/python -m bench faults

docs: $(READY) ## write the generated pages of docs/
	$(BIN)/python scripts/write_docs.py

site: ## build docs/ as a web site in site/; a broken link fails
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --group docs
	$(SITE)/bin/mkdocs build --strict --quiet

lock: $(READY) ## renew requirements.lock from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --no-annotate --no-emit-index-url --no-header --python-version 3.11 \
		pyproject.toml --group dev -o requirements.lock

up: $(READY) ## a Prefect server, the deployments and a worker on this machine
	@$(BIN)/python scripts/up.py

down: ## stop what `make up` started
	@test ! -e $(BIN)/python || $(BIN)/python scripts/up.py --down

clean: ## remove the environment and all caches
	rm -rf $(VENV) $(SITE) site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis mutants
