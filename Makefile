# make demo          set up, build and port a real model end to end
# make test          set up, build and run all tests
# make build         set up and build; the program is build/portwright
# make lint          formatting of our own code
# make tidy          static analysis of our own code (clang-tidy; minutes)
# make asan          the C++ tests under the address and undefined-behaviour sanitizers
# make fuzz          the loader and simplify under libFuzzer, ten minutes each
# make bench         the benchmarks behind the figures in the README
# make bench-model   check and simplify against onnx.checker, onnxsim, onnxslim and Polygraphy (half an hour)
# make networks      forty real networks through check and simplify, against the same peers (an hour)
# make conformance   the node tests of the onnx package through everything, and every engine here (20 minutes)
CMAKE := .venv/bin/cmake
PRESET ?= $(if $(CI),ci,release)

.PHONY: all setup build test demo lint tidy format asan fuzz bench bench-model networks peers conformance clean
all: build

setup:
	@scripts/setup

build: setup
	@[ build/build.ninja -nt .deps.cmake ] || $(CMAKE) --preset $(PRESET) >build.log 2>&1 || { cat build.log; exit 1; }
	@$(CMAKE) --build build

test: build
	@scripts/test

demo: build
	@scripts/demo

lint: setup
	@scripts/lint

tidy: build
	@scripts/lint --tidy

format:
	@scripts/lint --fix

asan: setup
	@$(CMAKE) --preset asan >/dev/null
	@$(CMAKE) --build build-asan
	@cd build-asan && ctest --output-on-failure

bench: build
	@benchmarks/run

fuzz: setup
	@scripts/fuzz

# What others use today, beside the cache and apart from what Portwright itself uses.
PEERS := $(or $(PORTWRIGHT_CACHE),$(HOME)/.cache/portwright)/peers
peers:
	@[ -x $(PEERS)/bin/polygraphy ] || { python3 -m venv $(PEERS) && $(PEERS)/bin/pip install -q onnxsim onnxslim onnx onnxruntime polygraphy onnx-graphsurgeon; }

bench-model: build peers
	@.venv/bin/python benchmarks/model.py --peers $(PEERS)/bin

networks: build peers
	@.venv/bin/python benchmarks/networks.py --peers $(PEERS)/bin

conformance: build
	@.venv/bin/python tests/conformance/node_tests.py

clean:
	rm -rf build build-asan build-debug build-fuzz
