"""Who may import whom, and what the quick commands must not load."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "replica": [],
    "controller": ["replica"],
    "cluster": ["replica", "controller"],
    "scenarios": ["replica", "controller", "cluster"],
    "spark_reports": ["replica.trace"],
}
"""What a package may use besides itself and libraries."""

SPARK_COMMANDS = (
    "scenarios/cli/doctor.py",
    "scenarios/cli/follow.py",
    "scenarios/cli/report.py",
    "scenarios/cli/searching/command.py",
    "scenarios/cli/searching/spark_player.py",
    "scenarios/cli/spark.py",
    "scenarios/cli/sweep/command.py",
    "scenarios/bench/report.py",
    "scenarios/cli/bench.py",
)
"""The only files that may import spark_reports, and only inside their functions: no other command waits for Spark."""

SHELLS = [
    "cluster/network/shell.py",
    "cluster/network/world.py",
    "cluster/network/fabric.py",
    "cluster/network/host.py",
    "cluster/network/virtual_time.py",
    "cluster/live/time.py",
    "cluster/live/fabric.py",
    "cluster/live/tcp_connection.py",
    "cluster/live/acceptor.py",
    "cluster/live/frames.py",
    "cluster/live/sockets.py",
    "cluster/live/tls.py",
    "cluster/live/writer.py",
    "cluster/live/control.py",
    "cluster/live/peers.py",
    "cluster/live/neighbours.py",
    "cluster/live/processes.py",
    "cluster/live/node_life.py",
    "cluster/live/remote_core.py",
    "cluster/live/remote_host.py",
    "cluster/kafka/addresses.py",
    "cluster/kafka/admin.py",
    "cluster/kafka/class_archive.py",
    "cluster/kafka/clients/helper.py",
    "cluster/kafka/fabric.py",
    "cluster/kafka/jvm.py",
    "cluster/kafka/observe/observer.py",
    "cluster/kafka/relay.py",
    "cluster/kafka/time.py",
    "cluster/kafka/observe/sampler.py",
]
"""Everything else is a pure core: no task, no clock, no socket."""

OF_A_RUN = 312
"""Fewer of our modules are imported for a run of the first lesson; 623 were before they were imported by need."""
HEAVY = ("trio", "pyspark", "networkx", "pyarrow", "kio", "pandas", "numpy", "altair", "jinja2")


class Import(NamedTuple):
    """One import statement; `lazy` if it is inside a function, `typing` if only a type checker runs it."""

    file: str
    line: int
    module: str
    lazy: bool
    typing: bool


def imports_of(path: Path) -> Iterator[Import]:
    file = path.relative_to(ROOT).as_posix()

    def walk(node: ast.AST, lazy: bool, typing: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import(file, node.lineno, alias.name, lazy, typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: imports are absolute here"
            # `from replica import trace` uses replica.trace.
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module in MAY_IMPORT else []
            yield from (Import(file, node.lineno, name, lazy, typing) for name in names or [str(node.module)])
        in_function = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for_types = typing or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        for child in ast.iter_child_nodes(node):
            yield from walk(child, in_function, for_types)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), False, False)


@cache
def all_imports(package: str) -> list[Import]:
    found = [one for path in sorted((ROOT / package).rglob("*.py")) for one in imports_of(path)]
    assert found, f"no imports found under {package}/: is the test looking in the right place?"
    return found


def is_within(module: str, allowed: str) -> bool:
    return module == allowed or module.startswith(allowed + ".")


@pytest.mark.soak
@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_only_what_is_below_them(package: str) -> None:
    wrong = [
        f"{one.file}:{one.line} imports {one.module}"
        for one in all_imports(package)
        if one.module.split(".")[0] in MAY_IMPORT
        and not any(is_within(one.module, allowed) for allowed in (package, *MAY_IMPORT[package]))
        and not (one.file in SPARK_COMMANDS and (one.lazy or one.typing) and is_within(one.module, "spark_reports"))
    ]
    assert not wrong, (
        f"{package} may import {', '.join(MAY_IMPORT[package]) or 'none of our packages'} and itself "
        f"; spark_reports only inside the functions of {', '.join(SPARK_COMMANDS)}:\n" + "\n".join(wrong)
    )


@pytest.mark.soak
@pytest.mark.parametrize("package", ["replica", "controller", "cluster"])
def test_cores_are_pure(package: str) -> None:
    wrong = [
        f"{one.file}:{one.line} imports {one.module}"
        for one in all_imports(package)
        if one.module.split(".")[0] in ("trio", "asyncio", "socket", "select", "threading", "time")
        and not one.typing
        and one.file not in SHELLS
    ]
    assert not wrong, (
        "a core takes time as an integer and knows no sockets or tasks; only the shells "
        f"({', '.join(SHELLS)}) may:\n" + "\n".join(wrong)
    )


@pytest.mark.soak
def test_pyspark_is_for_the_reports_alone() -> None:
    wrong = [
        f"{one.file}:{one.line} imports {one.module}"
        for package in ("replica", "controller", "cluster", "scenarios")
        for one in all_imports(package)
        if is_within(one.module, "pyspark")
    ]
    assert not wrong, "only spark_reports uses PySpark:\n" + "\n".join(wrong)


def test_package_files_hold_a_docstring_only() -> None:
    for package in MAY_IMPORT:
        body = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8")).body
        assert not body[1:], f"{package}/__init__.py runs code whenever anything of the package is imported"


def loaded_by(words: list[str], folder: Path) -> set[str]:
    """All modules of a process that has carried out this command, in that folder."""
    program = (
        "import sys\nfrom scenarios.cli.main import cli\n"
        f"cli.main({words!r}, standalone_mode=False)\n"
        "print('loaded:', *sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split()[1:])


def must_do_without(names: Sequence[str], words: list[str], folder: Path) -> None:
    there = loaded_by(words, folder)
    loaded = [name for name in names if name in there]
    assert not loaded, (
        f"`highwater {' '.join(words)}` loads {', '.join(loaded)}: import it inside the function that needs it "
        f"(`python -X importtime -m scenarios.cli {words[0]}` shows where)"
    )


@pytest.mark.parametrize("words", [["list"], ["show", "acks1-leader-kill"], ["check", "acks1-leader-kill"]])
def test_quick_commands_load_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    """`list` and `check` answer in 0.3 s."""
    must_do_without(HEAVY, words, tmp_path)


@pytest.mark.soak
def test_a_run_and_its_readers_load_what_they_use(tmp_path: Path) -> None:
    """The first minutes of a lesson. kio would import hypothesis, which leaves a folder wherever it is loaded."""
    for_spark_and_tests = ("pyspark", "pandas", "altair", "jinja2", "hypothesis", "pytest")
    must_do_without((*for_spark_and_tests, "networkx"), ["run", "acks1-leader-kill", "--no-logs"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    plays = ("trio", "kio", "networkx", "pyarrow.compute", "cluster.broker.broker", "controller.image")
    must_do_without((*for_spark_and_tests, *plays), ["view"], tmp_path)
    must_do_without((*for_spark_and_tests, *plays), ["explain"], tmp_path)


def test_a_run_imports_a_part_of_the_modules(tmp_path: Path) -> None:
    """What it does not use (groups, transactions, ACLs, admin APIs, ZooKeeper, TLS, the live mode) is not imported."""
    loaded = loaded_by(["run", "acks1-leader-kill", "--no-logs"], tmp_path)
    ours = sorted(name for name in loaded if name.split(".")[0] in MAY_IMPORT)
    assert len(ours) < OF_A_RUN, "\n".join(ours)
    unused = (
        "cluster.groups",
        "cluster.transactions",
        "cluster.authentication",
        "cluster.live",
        "controller.zookeeper",
    )
    assert not set(unused) & set(ours)


@pytest.mark.soak
def test_the_lab_judges_without_arrow(tmp_path: Path) -> None:
    """Each answer of a student is played three times, within two seconds in all; no trace is written.

    The records of a run are in columns that numpy reads, which takes a tenth of a second to load.
    """
    must_do_without(HEAVY, ["lab", "start", "one-setting", "--student", "Ada"], tmp_path)
    answer = tmp_path / "one-setting.yaml"
    answer.write_text(answer.read_text(encoding="utf-8").replace("acks: 1", "acks: all"), encoding="utf-8")
    words = ["lab", "check", "one-setting", "one-setting.yaml"]
    must_do_without(sorted({*HEAVY} - {"trio", "kio", "numpy"}), words, tmp_path)
