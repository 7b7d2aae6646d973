# One line a target; `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PRESET ?= dev
ARGS ?=
BUILD := build/$(PRESET)
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
SOURCES = $(wildcard csrc/*.cc csrc/*/*.cc csrc/*/*.h)

N ?= 300

.PHONY: fuzz tpu-check help setup configure build test test-cpp test-py test-sanitized test-second conformance demo bench lint format clean

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1|\2/p' $(MAKEFILE_LIST) \
	  | awk -F '|' '{ printf "%-14s %s\n", $$1, $$2 }'
	@echo 'PRESET=dev|release|bench|asan|tsan picks the build; ARGS= goes to the program that a target runs.'

setup:  ## install what is missing, create .venv, build and install torch_tpu into it
	@scripts/setup.sh

# One build at a time: ninja does not lock its folder.
build: $(BUILD)/build.ninja  ## rebuild what changed, and put it where .venv imports it
	@flock $(BUILD) ninja -C $(BUILD)
	@flock $(BUILD) cmake --install $(BUILD) --component python --prefix $(wildcard .venv/lib/python3*/site-packages) \
	  | grep -v Up-to-date | grep Installing || true

$(BUILD)/build.ninja: | .venv
	@cmake --preset $(PRESET)

.venv:
	@scripts/setup.sh

test: test-cpp test-py test-second  ## all tests: C++ and Python, with each CPU plugin

test-cpp: $(BUILD)/build.ninja  ## the C++ tests (PRESET=asan or tsan: under that sanitizer)
	@flock $(BUILD) ninja -C $(BUILD) tpu_tests
	@ctest --test-dir $(BUILD) --output-on-failure $(ARGS)

test-py: build  ## the Python tests
	@python -m pytest -n 2 $(ARGS)

# The interpreter, torch and the plugin know nothing of sanitizers: those come before them, and no leak is told of, since
# Python frees little at its end. A child may start threads although its parent had some.
SANITIZED = env TPU_SANITIZED="$$(echo $(CURDIR)/$(BUILD)/torch_tpu/_C*.so)" \
  PYTHONPATH=$(CURDIR)/tools/sanitizers PYTHONMALLOC=malloc \
  LD_PRELOAD="$$(g++ -print-file-name=lib$(PRESET).so) $$(g++ -print-file-name=libstdc++.so)" \
  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
  TSAN_OPTIONS="ignore_noninstrumented_modules=1 die_after_fork=0"

test-sanitized: $(BUILD)/build.ninja  ## Python tests of threads and the cache (PRESET=asan or tsan: under that sanitizer)
	@flock $(BUILD) ninja -C $(BUILD) _C
	@$(SANITIZED) python -m pytest -q $(or $(ARGS),tests/test_threads.py $(wildcard tests/test_cache*.py))

# Its compiler is years apart from the first one's.
test-second: build  ## the Python tests on the second CPU plugin
	@TORCH_TPU_PLUGIN=$$(python -c 'from torch_tpu._plugin import cpu_plugins; print(cpu_plugins()[1])') \
	  python -m pytest -n 2 -q $(ARGS)

# The whole of it takes an hour and writes the table; a part (ARGS="--ops REGEX", "--help") only prints.
conformance: build  ## PyTorch's operator database on the device and on the CPU, as docs/conformance.md
	@python -m tests.conformance $(or $(ARGS),--json $(BUILD)/conformance.jsonl --page docs/conformance.md --check)

# The compiler in a folder of its own: where libtpu is importable, other libraries may take the machine for a TPU.
tpu-check: build  ## compile the op table and the test models for TPUs that are not here
	@test -e build/libtpu/libtpu/libtpu.so || python -m pip install -q --no-deps --target build/libtpu -r requirements/aot.txt
	@TPU_LIBRARY_PATH=$${TPU_LIBRARY_PATH:-$(CURDIR)/build/libtpu/libtpu/libtpu.so} \
	  python -m tools.tpu_check --page docs/tpu-check.md --check $(ARGS)

fuzz: build  ## random programs on the CPU and the device: make fuzz N=1000 (ARGS="--help" tells more)
	@python -m tests.fuzz $(N) $(ARGS)

demo: | .venv  ## show it at work
	@python -m torch_tpu.demo $(ARGS)

# The whole of it writes the page; a part (ARGS="--rows chain,gpt") only prints.
bench: | .venv  ## the device beside its peers, as docs/benchmarks.md (ARGS="--help" tells more)
	@cmake --preset bench >/dev/null && ninja --quiet -C build/bench tpu_bench tpu_floor torchtpu_plugin
	@bench/setup.sh
	@python -m bench $(if $(findstring --rows,$(ARGS)),,--page docs/benchmarks.md) $(ARGS)

lint: | .venv  ## formatting, static checks, include directions
	@clang-format --dry-run -Werror $(SOURCES)
	@python tools/check_layers.py
	@ruff check .
	@ruff format --check .
	@mypy

format: | .venv  ## format all code in place
	@clang-format -i $(SOURCES)
	@ruff check --fix-only -q .
	@ruff format .

clean:  ## remove the builds, keep .venv
	@rm -rf build
