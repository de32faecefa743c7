# The two commands to know: `make run` and `make test`. Each sets up what it needs by itself.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: help install run test fuzz lint format docs bench results figures lock clean

help:  ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/' | column -t -s:

install: $(READY)  ## Build .venv with everything needed to run and test

$(READY): requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hellinger needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

run: install  ## Show the main job: five algorithms share live traffic, on a page
	$(BIN)/hellinger demo

test: install  ## Run the tests
	$(BIN)/pytest -n auto --dist worksteal

MINUTES ?= 20
fuzz: install  ## Live random lives with fresh seeds, printed, for MINUTES=20
	PYTHONPATH=tests $(BIN)/python tests/fuzz.py --minutes $(MINUTES)

lint: install  ## Check style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install  ## Put the sources in order
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: install  ## Build the documents as a site in build/site, links checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: install  ## Measure speed, as ratios within one run
	$(BIN)/python benchmarks/index.py
	$(BIN)/python benchmarks/lab.py
	$(BIN)/python benchmarks/pool.py
	$(BIN)/python benchmarks/shell.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/service.py --sizes 10000 --batches 300
	$(BIN)/python benchmarks/service.py --flat
	$(BIN)/python benchmarks/workers.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/experiment.py

ONLY ?=
results: install  ## Measure what documents show, into docs/results; ONLY="pool index" for some
	$(BIN)/python tools/results.py $(ONLY)

figures: install  ## Put docs/results into the documents, and redraw their pictures
	$(BIN)/python tools/figures.py

lock: install  ## Pin what pyproject.toml asks for, with hashes
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header --no-annotate \
		--strip-extras --allow-unsafe --extra dev --extra cluster --extra lab --extra serve --output-file requirements.txt pyproject.toml

clean:  ## Remove what was built
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
