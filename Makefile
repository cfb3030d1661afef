# On a fresh machine: `make demo` sets up and runs the main job, `make test` sets up and runs the tests.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(shell command -v uv 2>/dev/null || echo .local/uv/bin/uv)
STAMP  := $(VENV)/.installed

# What fails is run once more by itself: on a busy machine a real cluster can be slower than a test's patience.
run-tests = $(BIN)/pytest -q $(1) || { echo "== once more, what failed"; $(BIN)/pytest -q --last-failed --last-failed-no-failures none $(1); }

.PHONY: help setup tools demo test test-fast test-gpu lint format docs lock sdk freeze sbom bench clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.local/uv/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: $(PYTHON) is $$($(PYTHON) -V 2>&1 || echo missing); Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@echo "setting up uv"
	@$(PYTHON) -m venv .local/uv && .local/uv/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.5"

$(STAMP): requirements.lock pyproject.toml | $(if $(findstring .local,$(UV)),.local/uv/bin/uv)
	@echo "setting up $(VENV)"
	@test -x $(BIN)/python || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV)
	@VIRTUAL_ENV=$(VENV) $(UV) pip sync --quiet --require-hashes requirements.lock
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-deps --editable .
	@touch $@

setup: $(STAMP)  ## install everything that Python needs, into .venv

tools: setup  ## provide pulumi, Kubernetes and kwok (found on this machine, or built once and cached)
	@$(BIN)/python -m tensorfusion_iac.local.toolchain

demo: setup  ## a control plane on this machine, then a real `pulumi up` of the quick start
	@$(BIN)/tensorfusion demo

# Without root there are no real nodes, and the tests that need one say so.
TEST_TOOLS = rules languages $(if $(filter 0,$(shell id -u)),node)

test: tools  ## all tests, those against a real control plane and with real processes too
	@$(BIN)/python -m tensorfusion_iac.local.toolchain $(TEST_TOOLS) > /dev/null
	@$(call run-tests,-n 2 tests/unit tests/components)
	@$(call run-tests,tests/agent)
	@$(call run-tests,-n 2 --dist loadfile --no-loadscope-reorder tests/cluster)

test-fast: setup  ## the tests that need no control plane
	@$(BIN)/pytest -q -n 2 tests/unit tests/components

test-gpu: setup  ## the tests that ask the real NVIDIA driver of this machine; without one they fail and say so
	@$(BIN)/pytest -q tests/gpu

lint: setup  ## ruff, mypy --strict, import-linter
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

format: setup  ## rewrite the code in the project's format
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

docs: setup  ## rewrite the generated pages
	@$(BIN)/python -m tensorfusion_iac.api.reference
	@$(BIN)/python -m tensorfusion_iac.cli.reference > docs/reference/cli.md
	@PYTHONPATH=components $(BIN)/python tests/unit/test_plugin.py

sdk: setup  ## the Go and TypeScript SDKs of the plugin, into sdk/
	@$(BIN)/python components/make_sdk.py

lock: setup  ## resolve the dependencies again
	@$(UV) pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet --upgrade --output-file requirements.lock
	@$(BIN)/python tools/image_requirements.py | $(UV) pip compile - --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet --constraint requirements.lock --output-file requirements-image.lock

freeze: setup  ## freeze this version's CRDs and objects under tests/upgrade, before a tag
	@$(BIN)/python tools/freeze.py

sbom: setup  ## the image's bill of materials and licences, into dist/
	@$(UV) venv --quiet --clear --python $(BIN)/python .local/image
	@VIRTUAL_ENV=.local/image $(UV) pip sync --quiet --require-hashes requirements-image.lock
	@VIRTUAL_ENV=.local/image $(UV) pip install --quiet --no-deps .
	@$(BIN)/python tools/sbom.py .local/image/lib/python3*/site-packages dist

bench: tools  ## a benchmark: make bench NAME=resolve (QUICK=1 for a short one)
	@test -n "$(NAME)" || { echo "make bench NAME=<one of: $$(ls bench | sed -n 's/\.py$$//p' | grep -v measure | tr '\n' ' ')>"; exit 2; }
	@$(BIN)/python bench/$(NAME).py

clean: ## stop the control plane and remove what was made here (the tools' cache stays)
	@test ! -x $(BIN)/tensorfusion || $(BIN)/tensorfusion local down --purge
	@rm -rf .venv .local dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
