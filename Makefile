# Paceline's commands. `make` alone lists them. Each makes what it needs: the virtual environment in .venv with
# the pinned requirements, and the native module built into it. Both are made again only if their sources changed.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.PHONY: studies studies-quick docs docs-publish audit
.PHONY: help demo test test-rust test-python test-rank test-ray test-report search mutants lint format fuzz bench wheel wheel-check wheel-twice wheel-linux sdist bench-wheel dev clean

VENV := .venv
BIN := $(VENV)/bin
REQUIREMENTS := requirements/dev.txt

# The first interpreter that is new enough. PYTHON=... on the command line overrides it.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	if "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo "$$p"; break; fi; done)

# In CI Cargo.lock must be up to date; elsewhere cargo may update it.
LOCKED := $(if $(CI),--locked)

# No recipe calls make. Without this, cargo under `make --jobs` warns of a job server that it cannot reach.
unexport MAKEFLAGS

# Tests start the command line hundreds of times: its modules are compiled once.
unexport PYTHONDONTWRITEBYTECODE

# PyO3 reads the configuration of an interpreter: the same for every command, so that nothing is built twice.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

RUST_SOURCES := Cargo.toml $(wildcard Cargo.lock) pyproject.toml \
	$(shell find rust -name '*.rs' -o -name Cargo.toml -o -type d)

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.release ## Replay a million requests and print the latencies that users would have seen
	@$(BIN)/python -m paceline.demo

test: test-rust test-python ## Run every test: the core's in Rust, then Python's, doctests and the README

# The binding has no tests in Rust, because they would have to link an interpreter; tests/ covers it.
test-rust: $(VENV)/.requirements
	cargo test --quiet --workspace --exclude paceline-py $(LOCKED)

# Tests of a group (tests/conftest.py) share a worker; any other test goes to the worker that is free first.
WORKERS ?= auto

test-python: $(VENV)/.native
	$(BIN)/python -m pytest -q --numprocesses $(WORKERS) --dist loadscope

# The neural rankers need torch, whose CUDA packages take 6 GB: so their tests have an environment of their own, which
# uses the native module that .venv's build put beside the sources. .ci/rank runs this only where it exists.
RANK_VENV := .venv-rank

test-rank: $(VENV)/.native $(RANK_VENV)/.requirements ## Run the tests of the neural rankers; installs 6 GB on first use
	OMP_NUM_THREADS=2 PYTHONPATH=python $(RANK_VENV)/bin/python -m pytest -q -c pyproject.toml tests/rank

$(RANK_VENV)/.requirements: requirements/rank.txt $(REQUIREMENTS)
	"$(PYTHON)" -m venv $(RANK_VENV)
	$(RANK_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements/rank.txt
	@touch $@

# These are among test-python's, too, which skips them where there is no Chromium.
test-report: $(VENV)/.native ## Open reports in a headless Chromium; installs Debian's where root may
	@.ci/chromium
	$(BIN)/python -m pytest -q tests/report

# Ray likewise. Its tests start a cluster of two nodes on this machine, and kill parts of it.
RAY_VENV := .venv-ray

test-ray: $(VENV)/.native $(RAY_VENV)/.requirements ## Run the tests of sweeps on Ray; installs half a gigabyte on first use
	PYTHONPATH=$(CURDIR)/python $(RAY_VENV)/bin/python -m pytest -q -c pyproject.toml -W default tests/distributed

$(RAY_VENV)/.requirements: requirements/ray.txt $(REQUIREMENTS)
	"$(PYTHON)" -m venv $(RAY_VENV)
	$(RAY_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements/ray.txt
	@touch $@

# The shell has a variable SECONDS of its own: only one given on the command line counts here.
SEARCH_SECONDS := $(if $(filter command line,$(origin SECONDS)),$(SECONDS),60)
SEED ?= 1

search: $(VENV)/.release ## Look for a case that breaks a promise: make search SECONDS=7200 SEED=7
	$(BIN)/python -m tests.search --seconds $(SEARCH_SECONDS) --seed $(SEED)

# The check needs a parser of Rust, which nothing else does.
MUTANTS_VENV := .venv-mutants

mutants: $(MUTANTS_VENV)/.requirements ## Change the engine in one place at a time, and list what no test notices; about an hour
	$(MUTANTS_VENV)/bin/python -m tests.mutation

$(MUTANTS_VENV)/.requirements: requirements/mutants.txt $(REQUIREMENTS)
	"$(PYTHON)" -m venv $(MUTANTS_VENV)
	$(MUTANTS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements/mutants.txt
	@touch $@

# That the stubs match the native module is a test: tests/unit/test_stubs.py.
lint: $(VENV)/.requirements ## Check format, lints and types
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets $(LOCKED) -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict python

format: $(VENV)/.requirements ## Rewrite the sources in the house format
	cargo fmt --all
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

studies: $(VENV)/.release ## Compare the tables of all study pages with fresh runs; needs real traces for most
	$(BIN)/python docs/studies/refresh.py --check

studies-quick: $(VENV)/.native
	$(BIN)/python docs/studies/refresh.py --check --quick

# The site's tools have an environment of their own, too, which reads the commands' help from .venv's native module.
# .ci/docs runs this only where it exists. The build itself fetches nothing.
DOCS_VENV := .venv-docs

docs: $(VENV)/.native $(DOCS_VENV)/.requirements ## Build the documentation's site into site/, strictly: a warning is an error
	@# Not --quiet, which drops warnings before --strict counts them.
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=python $(DOCS_VENV)/bin/mkdocs build --strict 2> >(grep -v '^INFO' >&2)
	@echo "site/ is built; to read it: $(DOCS_VENV)/bin/python -m http.server --directory site"

# The site of one version, beside those that the branch gh-pages has. PUSH= leaves the branch here.
PUSH := --push
docs-publish: $(VENV)/.native $(DOCS_VENV)/.requirements
	PATH="$(CURDIR)/$(DOCS_VENV)/bin:$$PATH" NO_MKDOCS_2_WARNING=1 PYTHONPATH=python \
		mike deploy $(PUSH) --update-aliases $(VERSION) $(ALIAS)

$(DOCS_VENV)/.requirements: requirements/docs.txt $(REQUIREMENTS)
	"$(PYTHON)" -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements/docs.txt
	@touch $@

# cargo-deny reads the same advisories as cargo-audit, and licences and sources besides. No pin is left out: a package
# that could not be looked up fails, too.
AUDIT_VENV := .venv-audit

audit: $(AUDIT_VENV)/.requirements ## Look the dependencies up among known vulnerabilities; needs cargo-deny and a network
	$(AUDIT_VENV)/bin/zizmor --offline --quiet .github
	@cargo deny --version > /dev/null 2>&1 || \
		{ echo "make audit needs cargo-deny: cargo install --locked cargo-deny" >&2; exit 1; }
	cargo deny --locked check
	cargo deny --manifest-path fuzz/Cargo.toml --config $(CURDIR)/deny.toml check
	for pins in requirements/*.txt; do \
		$(AUDIT_VENV)/bin/pip-audit --strict --disable-pip --no-deps --requirement "$$pins"; done

$(AUDIT_VENV)/.requirements: requirements/audit.txt
	"$(PYTHON)" -m venv $(AUDIT_VENV)
	$(AUDIT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements/audit.txt
	@touch $@

FUZZ_SECONDS ?= 60

fuzz: $(VENV)/.release ## Give malformed input to the readers, FUZZ_SECONDS (60) for each side
	@.ci/fuzz "$(FUZZ_SECONDS)" "$(BIN)/python"

bench: $(VENV)/.release ## Measure the speed of the parts, and of whole replays
	cargo bench --package paceline-benches $(LOCKED)
	$(BIN)/python benches/end_to_end.py

# The stamp is in dist/ too, so that dist/ never holds more than one wheel. If the toolchain has llvm-tools, the
# build is profile-guided (benches/train.py): replays take about a fifth less time.
wheel: dist/.built ## Build the abi3 wheel into dist/, profile-guided if llvm-tools are installed

dist/.built: $(VENV)/.requirements $(RUST_SOURCES) $(shell find python -type f -not -name '*.pyc' -not -name '*.so') $(wildcard benches/*.py) README.md LICENSE
	rm -rf dist
	.ci/wheel-build $(BIN) dist $(LOCKED)
	@touch $@

bench-wheel: dist/.built ## Measure the speed of whole replays with the wheel in dist/
	.ci/wheel-bench "$(PYTHON)"

wheel-check: dist/.built ## Install the wheel into an empty environment and use it there
	.ci/wheel-check "$(PYTHON)"

wheel-twice: $(VENV)/.requirements ## Build the wheel in two other folders, and compare the bytes
	.ci/wheel-twice $(BIN)

# Needs rustup, which fetches the standard library of each target.
WHEELS_VENV := .venv-wheels

wheel-linux: $(WHEELS_VENV)/.requirements ## Build the abi3 wheels of manylinux and musllinux, x86-64 and arm64, into dist-linux/, and check them
	.ci/wheel-linux $(WHEELS_VENV)/bin dist-linux

$(WHEELS_VENV)/.requirements: requirements/wheels.txt $(REQUIREMENTS)
	"$(PYTHON)" -m venv $(WHEELS_VENV)
	$(WHEELS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements/wheels.txt
	@touch $@

# The archive goes beside the wheel's folder, which holds one wheel and nothing else.
sdist: $(VENV)/.requirements ## Build the source distribution with all crates in it, and build it offline
	.ci/sdist-check "$$(.ci/sdist $(BIN) dist-source)" $(BIN)

dev: $(VENV)/.release ## Make the virtual environment and build the native module into it

$(VENV)/.requirements: $(REQUIREMENTS)
	@command -v cargo > /dev/null || \
		{ echo "Paceline needs a Rust toolchain, and cargo was not found: see https://rustup.rs" >&2; exit 1; }
	@test -n "$(PYTHON)" || { echo "Paceline needs Python 3.11 or later; python3 was" \
		"$$(python3 --version 2>&1 || echo not found). Give one with make PYTHON=/path/to/python3.11" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement $(REQUIREMENTS)
	@touch $@

# Tests need any native module that is up to date, and make one that builds quickly; what is timed or takes long needs
# a release build, which serves the tests, too.
$(VENV)/.native: $(VENV)/.requirements $(RUST_SOURCES)
	@rm -f $(VENV)/.release
	PIP_QUIET=1 VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/maturin develop --profile quick --quiet $(LOCKED)
	@touch $@

$(VENV)/.release: $(VENV)/.requirements $(RUST_SOURCES)
	PIP_QUIET=1 VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/maturin develop --release --quiet $(LOCKED)
	@touch $(VENV)/.native $@

clean: ## Remove all that the commands made, the virtual environment too
	rm -rf $(VENV) $(RANK_VENV) $(RAY_VENV) $(MUTANTS_VENV) $(DOCS_VENV) $(AUDIT_VENV) $(WHEELS_VENV) site target dist dist-source dist-linux .hypothesis .mypy_cache .ruff_cache .pytest_cache .bench
	find python -name '*.so' -delete
	find python tests benches -name __pycache__ -prune -exec rm -rf {} +
