"""Which modules are compiled, who decides whether any are, and HIGHWATER_PURE, which leaves them aside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, PathFinder, SourceFileLoader
from pathlib import Path

import pytest

from replica.plain_python import PACKAGES, PlainFinder
from scenarios.building.extensions import can_compile
from scenarios.building.modules import PLAIN, ROOMS, compiled_modules
from scenarios.building.running import Build

ROOT = Path(__file__).parents[2]


def test_the_list_names_what_is_there() -> None:
    assert [place for place in (*ROOMS, *PLAIN) if not (ROOT / place).exists()] == []
    modules = list(compiled_modules(ROOT))
    assert {"replica/leader.py", "controller/state.py", "cluster/broker/broker.py"} < set(modules)
    assert {file.split("/")[0] for file in modules} == set(PACKAGES)


def test_no_shell_is_compiled() -> None:
    shells = {
        "cluster/network/shell.py",
        "cluster/network/host.py",
        "cluster/live/fabric.py",
        "scenarios/run/runner.py",
    }
    assert not shells & set(compiled_modules(ROOT))


def test_pure_finds_the_source_beside_a_compiled_module(tmp_path: Path) -> None:
    (tmp_path / "leader.py").write_text("")
    (tmp_path / f"leader{EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    name, path = "replica.leader", [str(tmp_path)]
    compiled, plain = PathFinder.find_spec(name, path), PlainFinder().find_spec(name, path)
    assert compiled is not None and isinstance(compiled.loader, ExtensionFileLoader)
    assert plain is not None and isinstance(plain.loader, SourceFileLoader)
    assert PlainFinder().find_spec("numpy.leader", path) is None


def test_pure_is_asked_first_wherever_a_package_of_ours_is_imported() -> None:
    program = "import sys, {0}; print(type(sys.meta_path[0]).__name__)"
    for package in PACKAGES:
        done = subprocess.run(
            [sys.executable, "-c", program.format(package)],
            env={**os.environ, "HIGHWATER_PURE": "1", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "PlainFinder\n", package


def test_without_a_compiler_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/nonexistent/cc")
    assert not can_compile()


def test_a_build_says_what_it_is() -> None:
    assert str(Build(None, 0, is_pure=False)) == "plain Python"
    assert str(Build("1.2", 300, is_pure=False)) == "compiled with mypyc 1.2: 300 modules"
    assert str(Build("1.2", 300, is_pure=True)) == "plain Python (HIGHWATER_PURE is set; 300 modules are compiled)"
    assert [Build("1.2", 300, is_pure).is_compiled for is_pure in (False, True)] == [True, False]


@pytest.mark.soak
@pytest.mark.parametrize("setting", [{"CC": "/nonexistent/cc", "HIGHWATER_COMPILE": "auto"}, {}])
def test_pip_makes_a_plain_wheel_and_says_nothing(setting: dict[str, str], tmp_path: Path) -> None:
    for entry in (*PACKAGES, "spark_reports", "pyproject.toml", "setup.py", "README.md", "LICENSE"):
        place = ROOT / entry
        if place.is_dir():
            shutil.copytree(
                place, tmp_path / entry, ignore=shutil.ignore_patterns("__pycache__", "node_modules", "*.so")
            )
        else:
            shutil.copy(place, tmp_path / entry)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index",
         "--no-build-isolation", "--wheel-dir", "dist", "."],
        cwd=tmp_path,
        env={**os.environ, **setting},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (wheel,) = (tmp_path / "dist").iterdir()
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.name.endswith("py3-none-any.whl") and "replica/leader.py" in names
    assert [name for name in names if name.endswith(".so")] == []
