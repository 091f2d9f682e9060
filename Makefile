# Everything runs on a machine that has python3 (3.11 or newer), make and g++; the rest is installed into .venv.
#
#   make demo     trains the packaged tankard and serves it in the browser (LUXEL_DEMO_EXIT=1: report, then exit)
#   make test     lint, types, build, tests            make bench    benchmarks (a GPU makes them meaningful)
#   make build    native libraries + editable install  make format   rewrites the sources in the house format
#
# PYTHON: the interpreter to build .venv from.   VENV: where it goes.   TORCH: the torch to install where none is.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMPS := build/stamps/$(subst /,_,$(VENV))
GPU := $(wildcard /dev/nvidia0 /dev/nvidiactl)
# Without a GPU the torch that this repository is tested with; with one, the newest that pip finds for it.
TORCH ?= $(if $(GPU),torch,torch==2.13.0)
# The present GPU, or one architecture that proves the CUDA sources compile. Releases leave it empty.
CUDA_ARCHITECTURES ?= $(if $(GPU),native,90)
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST_ARGS ?=
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: demo test bench format build lint types clean
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:

$(STAMPS)/venv:
	@mkdir -p $(@D)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'luxel needs Python 3.11 or newer: make PYTHON=/path/to/python3.11'; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# torch first and alone: otherwise the dependencies would choose one that carries CUDA to a machine without a GPU.
$(STAMPS)/tools: $(STAMPS)/venv
	@$(BIN)/python -c 'import torch' 2>/dev/null || { echo 'Installing $(TORCH)'; $(PIP) install -qq '$(TORCH)'; }
	@echo 'Installing cmake, ninja, scikit-build-core'
	@$(PIP) install -qq 'cmake>=3.24' ninja 'scikit-build-core>=0.11'
	@touch $@

NATIVE_SOURCES := $(shell find cuda -type f -not -name '*.md')

$(STAMPS)/install: $(STAMPS)/tools pyproject.toml $(NATIVE_SOURCES)
	@echo 'Building the native libraries and installing luxel (editable)'
	@PATH="$(abspath $(BIN)):$$PATH" $(PIP) install -qq --no-build-isolation \
	  -C cmake.define.LUXEL_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES) --editable .
	@touch $@

$(STAMPS)/test-tools: $(STAMPS)/install
	@echo 'Installing what the tests need'
	@$(BIN)/python -c 'import pytest, hypothesis, playwright, ruff, pyright' 2>/dev/null || \
	  $(PIP) install -qq pytest hypothesis playwright ruff 'pyright[nodejs]'
	@touch $@

# pyright does not run the import hook of an editable install: links show it the package as it is installed.
build/tree/luxel:
	@mkdir -p $@ && for part in render scenes viewer; do ln -sfn ../../../$$part $@/$$part; done

build: $(STAMPS)/install build/tree/luxel

demo: build
	$(BIN)/luxel demo

lint: $(STAMPS)/test-tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMPS)/test-tools build/tree/luxel
	$(BIN)/pyright --pythonpath $(BIN)/python

test: lint types build
	$(BIN)/python -m pytest $(PYTEST_ARGS)

bench: build $(STAMPS)/test-tools
	$(BIN)/python -m tests.bench

format: $(STAMPS)/test-tools
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build dist .pytest_cache .ruff_cache
