# Two commands: `make demo` shows what Highwater is, `make test` runs the tests. Both need only Python 3.11+ and make.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo page test check soak kafka night wheel compiled compiled-test lock locked audit clean

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
	$(BIN)/python -m pytest -m 'soak and not night and not kafka' -n 2

# On every version of Apache Kafka that `highwater kafka install` has kept: by the wall clock, so it takes minutes.
kafka: .venv/.installed-dev
	$(BIN)/python -m pytest -m kafka

night: .venv/.installed-dev
	$(BIN)/python -m pytest -m 'night and not kafka' -n 2

# The compiled core: some minutes. `make demo` and `make test` do not wait for it, an editable installation has none.
wheel: .venv/.installed-dev
	rm -rf build/lib* build/bdist* dist
	HIGHWATER_COMPILE=1 $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps $(WHEEL_OPTIONS) \
	    --wheel-dir dist .

# What the wheel holds, beside the tests: build/compiled/ is a checkout whose packages are compiled.
compiled: wheel
	rm -rf build/compiled
	$(BIN)/python -m zipfile -e dist/*.whl build/compiled
	cp -r tests pyproject.toml build/compiled/

# The cores' tests on the compiled modules, and digests of both builds. Left out are tests that replace a method or a constant of a
# compiled module, which such a module does not allow or does not see, or give it an object of another class.
COMPILED_TESTS := tests/replica tests/controller tests/cluster tests/partition tests/scenarios/check tests/scenarios/observe
REPLACING := tests/scenarios/check/test_verdict.py \
    tests/controller/test_state_properties.py::test_a_sweep_at_its_limit_goes_on_10_ms_later \
    tests/scenarios/observe/test_packed_column.py::test_what_counts_up_or_stays_takes_next_to_nothing \
    tests/cluster/client/consumer/test_member_transcripts.py \
    tests/cluster/client/producer/test_transaction_level.py \
    tests/cluster/broker/test_api_table.py::test_one_file_makes_an_api_that_brokers_offer_and_answer \
    tests/cluster/server/test_socket_server.py::test_the_times_of_a_request_add_up
PROCESSES_TESTS := tests/live/parts/test_control.py tests/live/parts/test_pickling.py \
    tests/live/test_processes.py::test_a_sigkilled_leader_takes_what_it_alone_had_acked
VERIFIED := acks1-leader-kill controller-dies-with-follower

compiled-test: compiled
	cd build/compiled && ../../$(BIN)/python -m pytest -n 2 $(COMPILED_TESTS) $(addprefix --deselect=,$(REPLACING))
	cd build/compiled && for name in $(VERIFIED); do ../../$(BIN)/python -m scenarios.cli verify $$name --plain || exit 1; done
	cd build/compiled && ../../$(BIN)/python -m pytest $(PROCESSES_TESTS)

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
