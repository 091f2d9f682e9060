# Everything runs on a machine that has python3 (3.11 or newer), make and g++; the rest is installed into .venv.
#
#   make demo      trains the packaged tankard and serves it in the browser (LUXEL_DEMO_EXIT=1: report, then exit)
#   make test      lint, types, build and the quick tests: under ten minutes on two cores
#   make test-all  the same with the tests marked slow as well, and every error message reached: what CI runs
#   make build     native libraries + editable install      make lint    ruff
#   make test-oldest  readers and commands with the lowest versions that pyproject.toml allows
#   make bench     benchmarks (a GPU makes them meaningful) make types   pyright
#   make docs      the documentation as a site in build/site; opens without a network
#   make clean     removes what was built                   make format  rewrites the sources in the house format
#   make wheel     a release for every supported GPU in dist/ (needs nvcc; half an hour on two cores)
#   make wheel-cpu the same without CUDA kernels in dist/cpu/   make sdist   the source archive in dist/
#
# PYTHON: the interpreter to build .venv from.   VENV: where it goes.   TORCH: the torch to install where none is.
# CUDA_ARCHITECTURES: the GPUs to build kernels for (90-real, release, ...); unset: the present GPU, without one none.
# TEST_JOBS: number of pytest processes.         PYTEST_ARGS: further arguments of pytest, such as `-k camera`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMPS := build/stamps/$(subst /,_,$(VENV))
GPU := $(wildcard /dev/nvidia0 /dev/nvidiactl)
# Without a GPU the torch that this repository is tested with; with one, the newest that pip finds for it.
TORCH ?= $(if $(GPU),torch,torch==2.13.0)
CUDA_ARCHITECTURES ?= $(if $(GPU),native)
PIP := $(BIN)/python -m pip --disable-pip-version-check
CORES := $(shell nproc 2>/dev/null || echo 2)
TEST_JOBS ?= $(shell [ $(CORES) -lt 4 ] && echo $(CORES) || echo 4)
PYTEST_ARGS ?=
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(CORES)

# Two at a time: downloads, ruff and pyright run beside the native build.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += --jobs=2
endif

.PHONY: demo test test-all test-oldest tour bench docs format build lint types clean wheel wheel-cpu sdist
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:

$(STAMPS)/venv:
	@mkdir -p $(@D)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'luxel needs Python 3.11 or newer: make PYTHON=/path/to/python3.11'; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(STAMPS)/builder: $(STAMPS)/venv
	@echo 'Installing cmake, ninja, scikit-build-core'
	@$(PIP) install -qq 'cmake>=3.24' ninja 'scikit-build-core>=0.11'
	@touch $@

NATIVE_SOURCES := $(shell find cuda -type f -not -name '*.md')

# The package itself, without its dependencies: the build needs none of them.
$(STAMPS)/native: $(STAMPS)/builder pyproject.toml $(NATIVE_SOURCES)
	@echo 'Building the native libraries and installing luxel (editable)'
	@PATH="$(abspath $(BIN)):$$PATH" $(PIP) install -qq --no-build-isolation --no-deps \
	  --config-settings=cmake.define.LUXEL_CUDA=$(if $(CUDA_ARCHITECTURES),ON,OFF) \
	  $(if $(CUDA_ARCHITECTURES),--config-settings=cmake.define.LUXEL_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES)) --editable .
	@touch $@

# Where an nvcc is, tests prove that the CUDA sources compile, in a folder that no installation uses.
$(STAMPS)/cuda-check: $(STAMPS)/builder $(NATIVE_SOURCES)
	@PATH="$(abspath $(BIN)):$$PATH" cmake -S cuda -B build/cuda-check -G Ninja -DPython_EXECUTABLE=$(abspath $(BIN)/python) \
	  -DLUXEL_CUDA=ON -DLUXEL_CUDA_ARCHITECTURES=90-real > build/cuda-check.log
	@if grep -q 'luxel: no CUDA compiler found' build/cuda-check.log; then echo 'No nvcc: the CUDA sources are not compiled'; else \
	  echo 'Compiling the CUDA sources'; PATH="$(abspath $(BIN)):$$PATH" cmake --build build/cuda-check --target luxel_cuda -- --quiet; fi
	@touch $@

# A build with kernels has compiled them.
CUDA_CHECK := $(if $(CUDA_ARCHITECTURES),,$(STAMPS)/cuda-check)

# $(call requirements,EXPRESSION): installs a list of requirements from the table `project` of pyproject.toml.
requirements = $(BIN)/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
  print(*project$(1), sep="\n")' | $(PIP) install -qq -r /dev/stdin

# torch first and alone: otherwise the dependencies would choose one that carries CUDA to a machine without a GPU.
$(STAMPS)/packages: $(STAMPS)/builder pyproject.toml
	@$(BIN)/python -c 'import torch' 2>/dev/null || { echo 'Installing $(TORCH)'; $(PIP) install -qq '$(TORCH)'; }
	@echo 'Installing the dependencies of luxel'
	@$(call requirements,["dependencies"])
	@touch $@

$(STAMPS)/test-tools: $(STAMPS)/packages pyproject.toml
	@echo 'Installing what the tests need'
	@$(call requirements,["optional-dependencies"]["test"])
	@touch $@

$(STAMPS)/docs-tools: $(STAMPS)/packages pyproject.toml
	@echo 'Installing what the documentation is built with'
	@$(call requirements,["optional-dependencies"]["docs"])
	@touch $@

build: $(STAMPS)/packages $(STAMPS)/native

demo: build
	$(BIN)/luxel demo

lint: $(STAMPS)/test-tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(BIN)/python tests/layout_report.py

types: $(STAMPS)/test-tools
	$(BIN)/pyright --pythonpath $(BIN)/python

# A file's tests share a process, as they share fixtures. Threads that wait sleep: there are more of them than cores.
pytest = OMP_WAIT_POLICY=passive $(BIN)/python -m pytest --numprocesses=$(TEST_JOBS) --dist=loadfile

test: lint types build $(CUDA_CHECK)
	$(pytest) -m 'not slow' $(PYTEST_ARGS)

test-all: lint types build $(STAMPS)/docs-tools $(CUDA_CHECK)
	$(pytest) --error-sites all $(PYTEST_ARGS)

# Every tool of the page in six windows, and their screenshots: build/tour.webp.
tour: build $(STAMPS)/docs-tools
	LUXEL_TOUR=all $(pytest) tests/viewer/web/tour $(PYTEST_ARGS)

docs: build $(STAMPS)/docs-tools
	$(BIN)/python docs/site/build_site.py

# The lowest versions in an environment of their own. TORCH_OLDEST: the torch to test with.
OLDEST := $(VENV)-oldest
TORCH_OLDEST ?= torch==2.9.1
OLDEST_TESTS ?= tests/test_dependencies.py tests/scenes/captures tests/scenes/files tests/viewer/commands

test-oldest:
	$(MAKE) VENV=$(OLDEST) TORCH='$(TORCH_OLDEST)' build $(patsubst %,build/stamps/%/test-tools,$(subst /,_,$(OLDEST)))
	@$(OLDEST)/bin/python tests/oldest.py | $(OLDEST)/bin/python -m pip install -qq -r /dev/stdin
	OMP_WAIT_POLICY=passive $(OLDEST)/bin/python -m pytest -m 'not slow' --numprocesses=$(TEST_JOBS) --dist=loadfile \
	  $(OLDEST_TESTS) $(PYTEST_ARGS)

bench: build $(STAMPS)/test-tools
	$(BIN)/python -m tests.bench

$(STAMPS)/releaser: $(STAMPS)/builder
	@$(PIP) install -qq wheel
	@touch $@

# $(call release,KIND,FOLDER,OPTIONS,CHECKS): builds a wheel in a build folder of its own, checks it, gives it its tag.
define release
	@rm -rf build/wheel-$(1)
	PATH="$(abspath $(BIN)):$$PATH" $(PIP) wheel --quiet --no-build-isolation --no-deps --wheel-dir build/wheel-$(1) \
	  --config-settings=build-dir=build/$(1) $(3) .
	$(BIN)/python tests/packaging/check_wheel.py --retag $(4) build/wheel-$(1)/*.whl
	@mkdir -p $(2) && mv build/wheel-$(1)/*.whl $(2)/
endef

wheel: $(STAMPS)/releaser
	$(call release,release,dist,--config-settings=cmake.define.LUXEL_CUDA_ARCHITECTURES=release,--kernels)

wheel-cpu: $(STAMPS)/releaser
	$(call release,release-cpu,dist/cpu,--config-settings=cmake.define.LUXEL_CUDA=OFF)

sdist: $(STAMPS)/builder
	$(BIN)/python -c 'import scikit_build_core.build as backend; print("dist/" + backend.build_sdist("dist"))'

format: $(STAMPS)/test-tools
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build dist .pytest_cache .ruff_cache
