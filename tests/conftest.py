"""Golden transcripts for all tests (`pytest --rewrite` accepts what the code does today), and hypothesis everywhere:

no test asserts time, and an example that failed once is found again. What was skipped is listed at the end with its
reason; with HIGHWATER_ALL_TOOLS set, as `.ci/run` does in CI, a run fails if a test was skipped for want of a tool.
"""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.golden_runner import check_transcript
from tests.soak import examples

settings.register_profile("highwater", deadline=None, print_blob=True, derandomize=True, max_examples=examples(100))
settings.load_profile("highwater")


# A shell starts what it puts into the background with SIGINT ignored, and so would be every command that a test stops.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Screens are compared at their full width, whatever the width of the terminal that the tests run in.
os.environ.pop("COLUMNS", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what happened into the golden transcripts")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported stays. To look for garbage in it costs each worker more than a second, and time in its tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/live/"):
            item.add_marker(pytest.mark.live)


class ByNeed(LoadScopeScheduling):
    """Schedules whole modules, so that what a module plays once is played by one worker; Spark tests go to one
    worker, so that there is one session.

    Not by `xdist_group`: pytest-xdist 3.8 writes the group into the ids of tests, which pytest 9.2 does not allow.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "tests/spark" if nodeid.startswith("tests/spark/") else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByNeed:
    return ByNeed(config, log)


@pytest.fixture
def transcript(request: pytest.FixtureRequest) -> Callable[[Path, object], None]:
    """Play a transcript of tests/golden against a world of verbs."""
    rewrite = bool(request.config.getoption("--rewrite"))
    return lambda path, world: check_transcript(path, world, rewrite=rewrite)


MISSING_TOOL = "not installed here"
"""In the reason of every test that needs a program which a machine may lack."""


def skip_reasons(config: pytest.Config) -> Counter[str]:
    """Why tests were skipped, with how many."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    skipped = terminal.stats.get("skipped", []) if terminal is not None else []
    return Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = skip_reasons(terminalreporter.config)
    if reasons:
        listed = "; ".join(f"{reason} ({count})" for reason, count in sorted(reasons.items()))
        terminalreporter.write_line(f"Not tried: {listed}")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    missing = any(MISSING_TOOL in reason for reason in skip_reasons(session.config))
    if missing and os.environ.get("HIGHWATER_ALL_TOOLS") and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
