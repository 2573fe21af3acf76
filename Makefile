# Every target sets up what it needs. `make` alone lists them.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
READY := $(VENV)/.ready
SITE := .venv-site

.DEFAULT_GOAL := help
.PHONY: help install check test proofs audit fuzz mutants demo record bench faults docs site lock up down clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

COMPILE = $(BIN)/uv pip compile --quiet --universal --no-annotate --no-emit-index-url --no-header --python-version 3.11
# uv installs in a third of the time; where it cannot be had, pip does the same.
install_with = { test -x $(BIN)/uv && $(BIN)/uv pip install --quiet --python $(BIN)/python $(1) || \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(1); }

$(RUNTIME): requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv || true
	@$(call install_with,-r requirements.lock)
	@$(call install_with,--no-deps -e .)
	@touch $(RUNTIME)

$(READY): $(RUNTIME) requirements-dev.lock
	@$(call install_with,-r requirements-dev.lock)
	@touch $(READY)

install: $(RUNTIME) ## make .venv with what slowwave runs on; targets for developers add their tools

check: $(READY) ## style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: $(READY) ## the test suite but for the proofs; some five minutes on two idle cores
	$(BIN)/python -m pytest -n 3 --dist loadgroup --durations=30 -m "not proof" # some wait for servers and leases

proofs: $(READY) ## the dearest tests: kills, nights, races, laws at more examples; some twenty minutes more
	HYPOTHESIS_PROFILE=proof $(BIN)/python -m pytest -n 3 --dist loadgroup -m "proof or hypothesis"

audit: $(READY) ## look up the pinned packages in the list of known vulnerabilities
	$(BIN)/python scripts/audit.py

fuzz: $(READY) ## throw damaged input at every parser, FUZZ_S seconds each (30); wants atheris, else uses hypothesis
	$(BIN)/python -m bench.fuzz --seconds $(or $(FUZZ_S),30)

mutants: $(READY) ## break each rule in one place and see a test fail (MUTANTS='*.guards.*' EACH=30 SEED=1)
	@$(call install_with,-e '.[mutants]')
	nice $(BIN)/python scripts/mutants.py $(if $(MUTANTS),'$(MUTANTS)') $(if $(EACH),--each $(EACH)) $(if $(SEED),--seed $(SEED))

demo: $(RUNTIME) ## learn from the bundled conversations and ask four questions, without a key
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

lock: $(RUNTIME) ## renew both locks from pyproject.toml: what runs, and what developers need besides
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) pyproject.toml --group dev -c requirements.lock -o requirements-dev.lock

up: $(RUNTIME) ## a Prefect server, the deployments and a worker on this machine (UP='--port 4201 --watch FOLDER')
	@$(BIN)/slowwave up $(UP)

down: ## stop what `make up` started
	@test ! -e $(BIN)/slowwave || $(BIN)/slowwave down

clean: ## remove the environment and all caches
	rm -rf $(VENV) $(SITE) site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis mutants
