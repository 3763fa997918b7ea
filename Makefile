# `make book` builds the book, `make test` runs every check that needs no browser.
# `make help` lists the rest. Each target makes or refreshes .venv by itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
HTML := _build/html
EXECUTED := _build/executed
WIDGETS := book/_static/widgets
EMBED := node_modules/@jupyter-widgets/html-manager/dist
CHAPTERS = $(wildcard book/*.ipynb)

# One BLAS thread: the same sums on every machine, and no fight over cores between workers.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1
# Nothing here needs a debugger, and its start-up warning would be stored in notebooks.
export PYDEVD_DISABLE_FILE_VALIDATION := 1

.DEFAULT_GOAL := help
.PHONY: help .venv book pdf test browser notebooks lint format benchmark lock widgets clean

help:  ## list the targets
	@sed -n 's/^\([a-z.]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 14

.venv: $(READY)  ## the virtual environment: the lock, then this package

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "dpbai needs Python 3.11 or newer, but $(PYTHON) is" \
	       "$$($(PYTHON) --version 2>&1 || echo missing). Try: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
	  --config-settings editable_mode=compat -e .
	@touch $@

book: $(READY) widgets  ## build the book from clean, warnings as errors: _build/html/index.html
	rm -rf _build
	$(BIN)/python tools/notebooks.py --into $(EXECUTED)
	DPBAI_EXECUTED=$(abspath $(EXECUTED)) $(BIN)/jupyter-book build . --all -n -W --keep-going
	@echo "Open $(HTML)/index.html"

# The widgets' JavaScript and fonts, so that explorers work with no network.
widgets:
	@if [ -f $(WIDGETS)/embed.js ]; then \
	  :; \
	elif ! command -v npm >/dev/null; then \
	  echo "npm is not installed: widgets will come from the usual CDN."; \
	elif ! npm ci --silent --ignore-scripts --no-audit --no-fund; then \
	  echo "npm could not fetch the widgets: they will come from the usual CDN."; \
	else \
	  mkdir -p $(WIDGETS) && cp $(addprefix $(EMBED)/,embed.js *.txt *.woff *.woff2 *.ttf) $(WIDGETS); \
	fi

test: $(READY)  ## every check that needs no browser: tests/, then the chapters' stored outputs
	$(BIN)/pytest -n auto tests
	$(BIN)/pytest -n auto --dist loadfile --nbval --nbval-sanitize-with book/sanitize.cfg $(CHAPTERS)

browser: $(READY)  ## check the built book in headless Chromium with no network
	$(BIN)/pytest -n auto --dist loadscope tests/browser

pdf: $(READY) $(HTML)/index.html  ## join the built pages into one file: _build/pdf/dpbai.pdf
	$(BIN)/python tools/pdf.py

$(HTML)/index.html:
	$(MAKE) book

notebooks: $(READY)  ## run all chapters again, in place
	$(BIN)/python tools/notebooks.py

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(READY)  ## run each script of benchmarks/
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

lock:  ## write requirements.txt again from pyproject.toml, for all supported Pythons
	$(PYTHON) -m venv build/uv
	build/uv/bin/python -m pip install --quiet uv
	build/uv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --fork-strategy fewest --all-extras --no-annotate \
	  --custom-compile-command "make lock" pyproject.toml --output-file requirements.txt

clean:  ## remove what the other targets made, .venv included
	rm -rf $(VENV) _build build node_modules $(WIDGETS) *.egg-info
