# `make demo` and `make test` are all one needs; each target first brings what it needs.
PYTHON ?=
SWEEP ?= 10
REPOSITORY ?= $(shell git remote get-url origin 2>/dev/null)
BIN := .venv/bin
READY := .venv/.setup
GPU_TESTS := tests/engine/test_contracts.py tests/engine/test_recipes.py tests/engine/test_gpu.py tests/rollout/test_templates.py

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-more test-all test-bare test-light docs pictures e2e e2e-more lint format clean setup-gpu gpu-check dist doors \
	openenv-check mcp-check webarena-check sky-check chaos soak pairs e2e-nodes

help:  ## print this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(READY)  ## install into .venv, with CPU builds of torch and vLLM (PYTHON=... chooses the interpreter)

$(READY): pyproject.toml $(wildcard constraints/*.txt) scripts/setup_cpu.sh scripts/check_cpu.py
	@PYTHON="$(PYTHON)" scripts/setup_cpu.sh

demo: setup  ## train a tiny model on this machine: cloning, then AgentEvol with a control, and GRPO; ends with a table
	$(BIN)/agentgym-rl train -m experiment=demo algorithm=agentevol,grpo

test: setup  ## run the test suite without the engine, with a worker more than there are cores
	$(BIN)/python -m pytest -n auto --dist loadfile

test-more: setup  ## run what `make test` leaves out or tries little of: slow tests, twenty times the examples, browser, Java
	SWEEP=$(SWEEP) $(BIN)/python -m pytest -n auto --dist loadfile -m '(slow or sweep or hypothesis or browser or java) and not (e2e or chaos or nodes or pairs)'

test-all: test test-more  ## run all tests that need no engine

test-bare: setup  ## run `make test` as on a machine without a browser, Java and a home
	scripts/bare.sh $(MAKE) test

test-light:  ## run the tests that need no engine with another Python, in an environment of its own (PYTHON=python3.13)
	@PYTHON="$(PYTHON)" scripts/test_light.sh

docs: setup  ## build the documentation into site/; warnings are errors
	PYTHONPATH=scripts $(BIN)/zensical build --clean --strict
	$(BIN)/python scripts/check_site.py site
	$(BIN)/python -m pytest -q -n 0 tests/test_site.py

pictures: setup  ## draw the viewer's pictures in docs/images, of the demo's run, which is trained where it is not there
	[ -d runs/demo-agentevol-seed0 ] || $(BIN)/agentgym-rl train experiment=demo algorithm=agentevol
	$(BIN)/python scripts/pictures.py runs/demo-agentevol-seed0

e2e: setup  ## run the tests that start the real engine, two at a time (16 GiB of memory; some 20 minutes)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'e2e and not slow' --ignore tests/engine/test_same_training.py
	$(BIN)/python -m pytest -m e2e tests/engine/test_same_training.py

e2e-more: setup  ## run what `make e2e` leaves out: further algorithms, modes, models and faults (up to an hour)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'e2e and slow'

doors: setup  ## test the interfaces to Gymnasium, TRL, verifiers and Inspect AI against these packages
	scripts/check_doors.sh

openenv-check: setup  ## play with the real openenv package, in an environment of its own
	$(BIN)/python -m venv .venv/openenv && .venv/openenv/bin/pip install -q 'openenv==0.10.*'
	OPENENV_BIN=.venv/openenv/bin $(BIN)/python -m pytest -n 0 tests/envs/test_openenv_real.py

mcp-check: setup  ## play with MCP servers of others, in an environment of their own
	$(BIN)/python -m venv .venv/mcp && .venv/mcp/bin/pip install -q 'mcp<2' mcp-server-git mcp-server-sqlite mcp-server-time
	MCP_BIN=.venv/mcp/bin $(BIN)/python -m pytest -n 0 tests/envs/test_mcp_real.py

webarena-check: setup  ## score with the real webarena-verified, in an environment of its own
	$(BIN)/python -m venv .venv/webarena && .venv/webarena/bin/pip install -q -e '.[verified]' hypothesis pytest pytest-timeout
	.venv/webarena/bin/python -m pytest -p no:cacheprovider tests/envs/test_webarena_verified.py

sky-check: setup  ## let SkyPilot read examples/clusters/skypilot.yaml, in an environment of its own
	$(BIN)/python -m venv .venv/sky && .venv/sky/bin/pip install -q uv
	.venv/sky/bin/uv pip install -q --compile-bytecode -p .venv/sky/bin/python skypilot==0.14.1
	SKY_BIN=.venv/sky/bin $(BIN)/python -m pytest -n 0 tests/test_clusters.py -k skypilot

chaos: setup  ## let faults happen to the real engine, one after the other (half an hour)
	$(BIN)/python -m pytest -m chaos -s

pairs: setup  ## take two steps with experiments and algorithms in pairs, on the real engine (half an hour)
	$(BIN)/python -m pytest -m pairs -s

e2e-nodes: setup  ## train over two Ray nodes in network namespaces of this machine (minutes; as root)
	$(BIN)/python -m pytest -m nodes -s

soak: setup  ## 2,000 steps of a scripted model on a server that fails; ends with the growth of memory
	$(BIN)/python tests/chaos/soak.py

lint: setup  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup  ## let ruff format and mend what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup-gpu:  ## install into .venv-gpu, with CUDA builds of torch and vLLM (several GB; PYTHON=... chooses the interpreter)
	@PYTHON="$(PYTHON)" scripts/setup_gpu.sh

gpu-check: setup-gpu  ## install the GPU set, and run the tests against it that need no GPU (by hand; not part of CI)
	.venv-gpu/bin/python -m pytest -p no:cacheprovider -n 0 $(GPU_TESTS)

dist:  ## build what a package index takes, and check it as the index does (REPOSITORY=https://HOST/OWNER/agentgym-rl)
	REPOSITORY="$(REPOSITORY)" PYTHON="$(PYTHON)" scripts/dist.sh

clean:  ## remove .venv and caches; runs/ stays
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
