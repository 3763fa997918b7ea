# `make book` builds the book, `make test` runs every check that needs no browser.
# `make help` lists the rest. Each target makes or refreshes its virtual environment by itself:
# .venv, or with PYTHON=python3.13 one of that name beside it.

PYTHON ?= python3
VENV := .venv$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
LOCK := requirements.txt
# The newest Python of this machine, as a command or as a version of pyenv.
NEWEST ?= $(shell for v in 14 13 12 11; do \
  for python in python3.$$v $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.$$v.*/bin/python3; do \
    $$python -c '' 2>/dev/null && echo $$python && exit; done; done)
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m uv pip install --quiet --compile-bytecode --python $(BIN)/python
READY := $(VENV)/.ready
HTML := _build/html
EXECUTED := _build/executed$(VENV:.venv%=%)
RUN := $(EXECUTED)/.done
# What the outputs of chapters depend on. If any of it is newer than the last run, all are run again.
SOURCES = $(shell find dpbai book/*.ipynb book/drawings book/mistakes.py book/data tools/notebooks.py -type f \
  ! -path '*/__pycache__/*')
SAMPLE := 200
SEED := 0
CHAPTERS = $(wildcard book/*.ipynb)
# Rules that must hold for all inputs are tried on few of them, or on many as in .ci/run.
EXAMPLES ?= few

# One BLAS thread: the same sums on every machine, and no fight over cores between workers.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1
# Nothing here needs a debugger, and its start-up warning would be stored in notebooks.
export PYDEVD_DISABLE_FILE_VALIDATION := 1
# Pictures depend on the installed versions alone: not on settings of Matplotlib in the home of the user, nor on its list
# of fonts there, which is wrong for good if a Matplotlib whose files were not all there once wrote it.
export MPLCONFIGDIR := $(abspath $(VENV))/matplotlib
# What Python has compiled is kept: dozens of kernels and workers start, and each needs all of it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help .venv book pdf test units oldest newest browser notebooks changes lab lint format mutants benchmark \
  lock live serve clean

help:  ## list the targets
	@sed -n 's/^\([a-z.]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 14
	@echo
	@echo "One file of tests:   make .venv && $(BIN)/pytest tests/core/test_max_det.py"
	@echo "One chapter:         $(BIN)/python tools/notebooks.py book/privacy.ipynb"
	@echo "Another interpreter: make test PYTHON=python3.13"

.venv: $(READY)  ## the virtual environment: the lock, then this package

$(READY): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and sys.version)' || { \
	  echo "dpbai needs Python 3.11 or newer, and $(PYTHON) does not start one. Name one by its path," \
	       "make PYTHON=/path/to/python3.12, or with pyenv by its version: PYENV_VERSION=3.12.1 make" \
	       "PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(INSTALL) $(RESOLVE) -r $(LOCK)
	$(INSTALL) --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
	@# The list of fonts is made here: on a slow machine, a chapter that has to make it first warns of it.
	$(BIN)/python -c 'import matplotlib.font_manager'
	@touch $@

# One run of each chapter, which its stored outputs are compared with and the book is built from.
$(RUN): $(READY) $(SOURCES)
	rm -rf $(EXECUTED)
	$(BIN)/python tools/notebooks.py --into $(EXECUTED)
	@touch $@

book: $(RUN) live  ## build the book from clean: _build/html/index.html
	find _build -mindepth 1 -maxdepth 1 ! -name 'executed*' -exec rm -rf {} +
	DPBAI_EXECUTED=$(abspath $(EXECUTED)) $(BIN)/jupyter-book build . --all -n -W --keep-going
	@echo "Open $(HTML)/index.html"

# What pages need to run in the browser; without npm, the book is built without their buttons.
live: $(READY)
	@if ! command -v npm >/dev/null; then \
	  echo "npm is not installed: the book is built without buttons that run its pages."; \
	elif ! cmp -s package-lock.json node_modules/.lock && ! { \
	    npm ci --silent --ignore-scripts --no-audit --no-fund && cp package-lock.json node_modules/.lock; }; then \
	  echo "npm could not fetch Pyodide: the book is built without buttons that run its pages."; \
	else \
	  $(BIN)/python tools/live.py; \
	fi

serve: $(HTML)/index.html  ## show the built book at http://localhost:8000
	$(BIN)/python -m http.server --directory $(HTML) --bind localhost 8000

# A file runs on one core, so that its tests share what they prepare.
PYTEST := $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder --hypothesis-profile=$(EXAMPLES)

test: $(RUN)  ## tests/, and each chapter against its stored outputs
	$(PYTEST) --executed $(EXECUTED) --nbval-sanitize-with book/sanitize.cfg $(CHAPTERS) tests

units: $(READY)  ## tests/ alone
	$(PYTEST) tests

oldest:  ## tests/ with the oldest versions allowed, on Python 3.11
	$(MAKE) units PYTHON=python3.11 VENV=.venv-oldest LOCK=requirements-oldest.txt

newest:  ## tests/ with the newest versions allowed, on the newest Python here
	rm -f .venv-newest/.ready
	$(MAKE) units PYTHON=$(NEWEST) VENV=.venv-newest LOCK=pyproject.toml RESOLVE="--upgrade --all-extras"

browser: $(READY)  ## check the built book in headless Chromium with no network
	$(BIN)/pytest -n auto --dist loadscope --no-loadscope-reorder tests/browser

pdf: $(READY) $(HTML)/index.html  ## join the built pages into one file: _build/pdf/dpbai.pdf
	$(BIN)/python tools/pdf.py

$(HTML)/index.html:
	$(MAKE) book

notebooks: $(READY)  ## run all chapters again, in place
	$(BIN)/python tools/notebooks.py

changes: $(READY)  ## run the chapters with other parameters than their own
	$(BIN)/python tools/changes.py

lab: $(READY)  ## open the chapters in JupyterLab
	$(INSTALL) -c $(LOCK) jupyterlab
	$(BIN)/jupyter lab book

lint: $(READY)  ## ruff, mypy, and zizmor for the workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/zizmor --offline --quiet .github

format: $(READY)  ## mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

mutants: $(READY)  ## break the library in 200 places: do tests notice? An hour
	$(INSTALL) -c $(LOCK) "mutmut>=3.8,<4"
	nice $(BIN)/python tools/mutants.py --sample $(SAMPLE) --seed $(SEED)

benchmark: $(READY)  ## run each script of benchmarks/
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

COMPILE := build/uv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
  --fork-strategy fewest --no-annotate --custom-compile-command "make lock" pyproject.toml

lock:  ## write both requirements files again from pyproject.toml
	$(PYTHON) -m venv build/uv
	build/uv/bin/python -m pip install --quiet uv
	$(COMPILE) --all-extras --output-file requirements.txt
	$(COMPILE) --resolution lowest-direct --extra book --extra browser --extra distributed --extra opendp \
	  --extra test --output-file requirements-oldest.txt

clean:  ## remove what the other targets made, environments included
	rm -rf .venv .venv-* _build build mutants node_modules *.egg-info
