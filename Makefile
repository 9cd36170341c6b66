# Two commands: `make demo` shows what Highwater is, `make test` runs the tests. Both need only Python 3.11+ and make.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo page test check soak kafka night lock locked audit clean

demo: .venv/.installed
	$(BIN)/highwater run acks1-leader-kill
	$(BIN)/highwater report last

# Tests start hundreds of processes: without bytecode on disk, each would compile all modules anew.
test soak night: export PYTHONDONTWRITEBYTECODE =

# Three workers on two cores: one waits for live clusters most of the time, one has the Spark session.
test: .venv/.installed-dev
	$(BIN)/python -m pytest -n 3

check: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini tests

soak: .venv/.installed-dev
	$(BIN)/python -m pytest -m 'soak and not night and not kafka' -n 3

# On every version of Apache Kafka that `highwater kafka install` has kept: by the wall clock, so it takes minutes.
kafka: .venv/.installed-dev
	$(BIN)/python -m pytest -m kafka

night: .venv/.installed-dev
	$(BIN)/python -m pytest -m 'night and not kafka' -n 2

# The page of `highwater view`: needs Node, and is committed, so that a user does not.
page:
	cd scenarios/view/page && npm ci --no-audit --no-fund && npm run build

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/.installed-dev: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# The same packages as in CI: those of .ci/requirements.txt, each checked against its hash.
locked:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .ci/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch .venv/.installed .venv/.installed-dev

LOCK_TOOL := pip-tools>=7,<8

lock:
	$(PYTHON) -m venv .venv/lock
	.venv/lock/bin/python -m pip install --quiet --disable-pip-version-check '$(LOCK_TOOL)'
	.venv/lock/bin/pip-compile --quiet --extra dev --all-build-deps --generate-hashes --allow-unsafe --strip-extras --upgrade \
	    --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	    --output-file .venv/lock/requirements.txt pyproject.toml
	{ sed -n '/^#/!q;p' .ci/requirements.txt; sed 's|\.venv/lock/|.ci/|' .venv/lock/requirements.txt; } > .venv/lock/whole.txt
	mv .venv/lock/whole.txt .ci/requirements.txt

# Known vulnerabilities of the locked packages; it needs an index with PyPI's JSON API.
audit:
	$(PYTHON) -m venv .venv/audit
	.venv/audit/bin/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2,<3'
	.venv/audit/bin/pip-audit --strict --require-hashes --disable-pip --requirement .ci/requirements.txt

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
