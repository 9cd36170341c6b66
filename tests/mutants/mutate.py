"""Runs scenarios with one rule of the product taken out. `python mutate.py JSON` prints what became of each run.

A mutant is a change of source text: the module is compiled from its own source with the change in it, in a process of
its own, so that nothing of it stays behind, and a reader sees exactly which rule is missing.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
OWN_SCENARIOS = HERE / "scenarios"


@dataclass(frozen=True)
class Edit:
    """`old` stands exactly once in the module and is replaced by `new`."""

    module: str
    old: str
    new: str


@dataclass(frozen=True)
class Finding:
    """What one run showed.

    failed: the checks that did not hold, by name: invariants, expectations, tests
    crash: what else went wrong, which shows that the product noticed nothing and only fell over it
    """

    run: str
    failed: tuple[str, ...]
    crash: str


class _Finder(importlib.abc.MetaPathFinder):
    """Loads the modules named by the edits from changed source, all others as ever."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        self.edits: dict[str, list[Edit]] = {}
        for edit in edits:
            self.edits.setdefault(edit.module, []).append(edit)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.edits:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None and spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self.edits[fullname])
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, edits: Sequence[Edit]) -> None:
        super().__init__(fullname, path)
        self._edits = edits

    def get_code(self, fullname: str) -> CodeType:
        return compile(changed_source(Path(self.path).read_text(encoding="utf-8"), self._edits), self.path, "exec")


def changed_source(source: str, edits: Sequence[Edit]) -> str:
    """raises: ValueError when an edit does not fit the source any more"""
    for edit in edits:
        found = source.count(edit.old)
        if found != 1:
            raise ValueError(f"{edit.module} has {found} places that read {edit.old!r}: bring the mutant up to date")
        source = source.replace(edit.old, edit.new)
    return source


def source_of(module: str) -> str:
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def play(edits: Sequence[Edit], runs: Sequence[str]) -> list[Finding]:
    """Call once, in a process that has imported nothing of the product.

    runs: `scenario`, `scenario / variant`, `schedule 17` or `safe schedule 17` (a random one), each of which may be
        followed by ` with path=value` as for `highwater run --set`; or `test tests/replica/log/test_log.py::test_name`
    """
    sys.path.insert(0, str(ROOT))  # Before tests/, which pytest adds and which has a folder `replica`, too.
    sys.meta_path.insert(0, _Finder(edits))
    return [_play(run) for run in runs]


def _play(run: str) -> Finding:
    if run.startswith("test "):
        return _play_test(run)
    from scenarios.run.runner import run_scenario

    words, _, setting = run.partition(" with ")
    scenario, safe = _scenario(words, [setting] if setting else [])
    try:
        result = run_scenario(scenario, runs_dir=None)
    except Exception as error:
        return Finding(run, (), f"stopped by {type(error).__name__}: {error}"[:200])
    broken = dict.fromkeys(anomaly.sentence.partition(":")[0] for anomaly in result.verdict.of("invariant"))
    if "schedule " in words:  # Its steps may meet brokers that are down already; only what Kafka promises counts.
        unmet = [f"verdict {', '.join(result.verdict.kinds)}"] if safe and result.verdict.kinds else []
    else:
        unmet = [expectation.what for expectation in result.expectations if not expectation.held]
    return Finding(run, (*broken, *unmet), "")


def _play_test(run: str) -> Finding:
    import contextlib
    import os
    import tempfile

    import pytest

    class Judge:
        """A check failed if something was asserted in vain; another exception is no check."""

        failed: tuple[str, ...] = ()
        crash = ""

        @pytest.hookimpl
        def pytest_exception_interact(self, node: pytest.Item, call: pytest.CallInfo[None]) -> None:
            assert call.excinfo is not None
            if call.when == "call" and call.excinfo.errisinstance((AssertionError, pytest.fail.Exception)):
                self.failed = (*self.failed, node.name)
            else:
                self.crash = f"{node.nodeid}: {call.excinfo.exconly()}"[:200]

    os.chdir(ROOT)
    judge, options = Judge(), ["-q", "--tb=no", "-m", "", "-p", "no:cacheprovider", "-p", "no:xdist"]
    # In a folder of its own: in the common one pytest removes what other runs have left, which may take minutes.
    with (
        tempfile.TemporaryDirectory() as folder,
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
    ):
        ended = pytest.main([*options, f"--basetemp={folder}/tests", run.removeprefix("test ")], plugins=[judge])
    assert ended in (0, 1), f"{run} cannot be run: pytest ended with {ended}"
    return Finding(run, judge.failed, judge.crash)


def _scenario(words: str, settings: list[str]) -> tuple[Any, bool]:
    from scenarios.language.parse.catalogue import bundled
    from scenarios.language.parse.loading import load_file
    from scenarios.search.schedules import random_schedule

    if "schedule " in words:
        kind, _, seed = words.rpartition("schedule ")
        schedule = random_schedule(random.Random(int(seed)), safe=True if kind else None)
        return schedule.scenario(), schedule.safe
    name, _, variant = words.partition(" / ")
    path = bundled().get(name, OWN_SCENARIOS / f"{name}.yaml")
    file = load_file(path, settings)
    return (file.variants[variant] if variant else file.scenario), False


def main() -> None:
    asked = json.loads(sys.argv[1])
    findings = play([Edit(**edit) for edit in asked["edits"]], asked["runs"])
    json.dump([asdict(finding) for finding in findings], sys.stdout)


if __name__ == "__main__":
    main()
