# Two commands: `make demo` shows what Highwater is, `make test` runs the tests. Both need only Python 3.11+ and make.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check soak night clean

demo: .venv/.installed
	$(BIN)/highwater run acks1-leader-kill
	$(BIN)/highwater report last

test: .venv/.installed-dev
	$(BIN)/python -m pytest -n 2 --dist loadgroup

check: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

soak: .venv/.installed-dev
	$(BIN)/python -m pytest -m 'soak and not night' -n 2 --dist loadgroup

night: .venv/.installed-dev
	$(BIN)/python -m pytest -m night -n 2 --dist loadgroup

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/.installed-dev: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
