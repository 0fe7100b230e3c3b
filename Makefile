# Everything that is run on this repository. Needs Python 3.11, git and make; the rest is fetched by digest.

PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
UV     := uv==0.13.8
# Two workers: the test suites are measured on two cores.
WORKERS ?= 2

# A stamp is named for the digest of the lock that it was installed from: a changed lock installs anew.
digest = $(shell cat requirements/build.txt requirements/$(1).txt pyproject.toml | cksum | tr ' ' '-')
DEMO   := $(VENV)/demo-$(call digest,demo)
TEST   := $(VENV)/test-$(call digest,test)
PIPELINE := $(VENV)/pipeline-$(call digest,pipeline)
PIP     = $(BIN)/python -m pip --disable-pip-version-check --no-input install --quiet

# Some environments switch bytecode off: each of the hundreds of servers that tests start would compile itself.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
# An environment that was not finished must not count as one.
.DELETE_ON_ERROR:
.PHONY: help run pipeline test lint type imports unit docs docs-check sample compiled e2e soak e2e-ci bench bench-pipeline instructions mutants mutants-changed fuzz lock clean

help: ## Print the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(DEMO) ## Start the demo: a store, a policy, a token, and signproxy in front of them.
	$(BIN)/signproxy demo

pipeline: $(PIPELINE) ## Install what `signproxy pipeline` needs; Java 17 or newer is the machine's own.
	$(BIN)/signproxy pipeline --help

test: lint type imports docs-check unit ## Check style, types, import rules and generated docs, then run the unit tests.

lint: $(TEST) ## Check style and format.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(TEST) ## Check types, strictly.
	$(BIN)/mypy

imports: $(TEST) ## Check which room may import which.
	$(BIN)/lint-imports --no-logo

# Three reads of one measurement: everything but the pipeline, whose jobs are tested with Spark by the end-to-end suites,
# and the two pure rooms, where nothing may be left out.
unit: $(TEST) ## Run the unit tests with their coverage gates.
	$(BIN)/pytest tests --ignore=tests/e2e -m 'not spark' -n $(WORKERS) --dist worksteal --cov --cov-report=
	$(BIN)/coverage report --include='signproxy/s3/*,signproxy/policy/*' --fail-under=100
	$(BIN)/coverage report --omit='signproxy/pipeline/*' --fail-under=90

docs: $(TEST) ## Regenerate the tables of the documentation from the code.
	$(BIN)/python -m tools.docs

docs-check: $(TEST) ## Fail when a table of the documentation differs from the code.
	$(BIN)/python -m tools.docs --check

compiled: $(TEST) ## Compile the modules that every request takes, and run the pure rooms' tests on the result.
	$(BIN)/python -m tools.compiled

sample: $(TEST) ## Write the sample of `signproxy pipeline demo` anew, after a change of the event or of its generator.
	$(BIN)/python -m tools.sample_data.sample

e2e: $(TEST) ## Run every end-to-end test, or PART (a file or directory): real clients on real stores. Writes docs/matrix.json.
	$(BIN)/pytest $(or $(PART),tests/e2e tests/pipeline) -p no:randomly -m 'not soak'

soak: $(TEST) ## Serve at full load for twenty minutes while everything rotates. Writes docs/soak.json.
	$(BIN)/pytest tests/e2e/soak -p no:randomly -m soak

e2e-ci: $(TEST) ## Run the end-to-end tests of every change.
	$(BIN)/pytest tests/e2e tests/pipeline -p no:randomly -m 'ci or spark'

bench: $(TEST) ## Measure ratios against peers and floors; writes bench/results.json.
	$(BIN)/python -m bench

bench-pipeline: $(TEST) ## Measure the audit pipeline against DuckDB: ten million events, and the growth to fifty.
	$(BIN)/python -m bench --only pipeline_ingest --only pipeline --only pipeline_growth

instructions: $(TEST) ## Count the instructions of a request; fail if they grew by more than 1 % since BASE (default HEAD~1).
	$(BIN)/python -m bench.growth --against $(or $(BASE),HEAD~1)

mutants: $(TEST) ## Mutate s3 and policy; fail below 90 % killed. Writes docs/mutants.json.
	$(BIN)/python -m tests.mutation --fail-under 90 --output docs/mutants.json

mutants-changed: $(TEST) ## Mutate only the functions that changed since BASE (default HEAD~1).
	$(BIN)/python -m tests.mutation --fail-under 90 --changed-since $(or $(BASE),HEAD~1) --budget 240

ATHERIS := atheris==3.0.0
fuzz: $(TEST) ## Fuzz the sign way by coverage (FUZZ_SECONDS, default 300).
	$(BIN)/python -c 'import atheris' 2>/dev/null || $(PIP) $(ATHERIS)
	$(BIN)/python -m tests.fuzz --seconds $(or $(FUZZ_SECONDS),300)

# The resolver is fetched by name; the locks hold names, versions and digests, and no address.
LOCK = build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-emit-index-url --no-annotate $(UPGRADE)
lock: ## Pin the dependencies anew after a change of pyproject.toml (UPGRADE=--upgrade for the newest).
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip --disable-pip-version-check install --quiet $(UV)
	$(LOCK) pyproject.toml -o requirements/run.txt
	$(LOCK) --extra demo -c requirements/run.txt pyproject.toml -o requirements/demo.txt
	$(LOCK) --extra pipeline -c requirements/run.txt pyproject.toml -o requirements/pipeline.txt
	$(LOCK) --extra test -c requirements/run.txt -c requirements/pipeline.txt pyproject.toml -o requirements/test.txt
	echo 'setuptools>=80' | $(LOCK) - -o requirements/build.txt

clean: ## Remove the environment and everything that was generated and is not committed.
	rm -rf $(VENV) build .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache signproxy.egg-info

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo-% $(VENV)/pipeline-% $(VENV)/test-%: | $(BIN)/python
	$(PIP) --require-hashes -r requirements/build.txt
	# Spark comes as a source archive, of which a wheel is made: with the tool that was just installed, and no other.
	$(PIP) --require-hashes --no-build-isolation -r requirements/$(firstword $(subst -, ,$(@F))).txt
	$(PIP) --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q signproxy
	rm -f $(VENV)/$(firstword $(subst -, ,$(@F)))-*
	touch $@
