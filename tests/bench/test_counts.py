"""What one record and one fetch cost the simulator is held at what it was: a golden that may only go down by itself.

`pytest --rewrite` takes today's counts. Five short runs under the profiler, in a process of their own: some seconds.
What is not exact varies by 4 % from one process to the next, so it may take the least of several.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROCESSES_MAX = 5
GOLDEN = Path(__file__).with_name("counts.json")


def counts():
    command = [sys.executable, "-m", "tests.bench", "sim", "--counts", "--format", "json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.soak
def test_neither_a_record_nor_a_fetch_costs_more_than_it_did(request: pytest.FixtureRequest):
    found = counts()
    if request.config.getoption("--rewrite"):
        GOLDEN.write_text(json.dumps(found, indent=2) + "\n")
    allowed = json.loads(GOLDEN.read_text())
    processes = 1
    while (dearer := dearer_in(found, allowed)) and processes < PROCESSES_MAX:
        again, processes = counts(), processes + 1
        found = {
            what: {name: min(count, again[what][name]) for name, count in its.items()} for what, its in found.items()
        }
    assert dearer == []
    assert found.keys() == allowed.keys() and all(found[what].keys() == allowed[what].keys() for what in found)


def dearer_in(found, allowed):
    from tests.bench.counts import is_exact  # All that runs a scenario.

    return [
        f"{name} for one {what}: {found[what][name]}, was {most}"
        for what, names in allowed.items()
        for name, most in names.items()
        if found[what][name] > (most if is_exact(name) else most * 1.02 + 1)
    ]
