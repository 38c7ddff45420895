# Each target sets up what it needs by itself and is quick the second time.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
DEV := $(VENV)/.dev
ONCE ?=
JSON ?=

help: ## Say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

venv: $(DEV) ## Set up .venv with everything

$(RUN): pyproject.toml requirements.lock
	@.ci/venv run "$(PYTHON)" "$(VENV)"

$(DEV): pyproject.toml requirements.lock $(RUN)
	@.ci/venv dev "$(PYTHON)" "$(VENV)"

demo: $(RUN) ## Watch a fleet scale out and back in (ONCE=1 ends after the day, JSON=1 gives data)
	@$(BIN)/tidegate demo $(if $(ONCE),--once) $(if $(JSON),--json)

test: $(DEV) ## All tests
	@.ci/apt
	@$(BIN)/python -m pytest

lint: $(DEV) ## ruff, mypy, import-linter, sizes, dashboards up to date
	@.ci/lint "$(BIN)"

coverage: $(DEV) ## Tests under coverage, with the report
	@.ci/apt
	@$(BIN)/coverage erase && $(BIN)/coverage run -m pytest && $(BIN)/coverage combine -q && $(BIN)/coverage report

bench: $(DEV) ## Ratios against named peers, measured in one run
	@set -e; for program in $(filter-out bench/decide.py,$(wildcard bench/*.py)); do echo "== $$program"; $(BIN)/python $$program; done

bench-decide: $(DEV) ## Our decision against every autoscaler we know; writes docs/performance.md
	@$(BIN)/python bench/decide.py

soak: $(DEV) ## The long proofs: many rounds, a real engine
	@.ci/apt
	@$(BIN)/python -m pytest -m soak --timeout 3600 -s

dashboards: $(DEV) ## Write the Grafana boards anew
	@$(BIN)/python dashboards/build.py

lock: $(DEV) ## Write requirements.lock anew from what is installed
	@.ci/lock "$(BIN)"

wheel: $(DEV) ## Build the wheel into dist/
	@$(BIN)/pip wheel -q --no-deps -w dist . && ls -1 dist

clean: ## Remove what was built
	@rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache htmlcov .coverage .coverage.*

.PHONY: help venv demo test lint coverage bench bench-decide soak dashboards lock wheel clean
