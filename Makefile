# make demo    set up, build and port a real model end to end
# make test    set up, build and run all tests
# make build   set up and build; the program is build/portwright
# make lint    formatting of our own code
# make tidy    static analysis of our own code (clang-tidy; minutes)
# make asan    the C++ tests under the address and undefined-behaviour sanitizers
# make bench   the benchmarks behind the figures in the README
# make conformance   the node tests of the onnx package through everything, and every engine here (20 minutes)
# make bench-model   simplify against onnxsim and onnxslim, which it installs beside the cache
CMAKE := .venv/bin/cmake
PRESET ?= $(if $(CI),ci,release)

.PHONY: all setup build test demo lint tidy format asan bench bench-model conformance clean
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

PEERS := $(or $(PORTWRIGHT_CACHE),$(HOME)/.cache/portwright)/peers
bench-model: build
	@[ -x $(PEERS)/bin/onnxslim ] || { python3 -m venv $(PEERS) && $(PEERS)/bin/pip install -q onnxsim onnxslim onnx onnxruntime; }
	@.venv/bin/python benchmarks/model.py --peers $(PEERS)/bin

conformance: build
	@.venv/bin/python tests/conformance/node_tests.py

clean:
	rm -rf build build-asan build-debug
