"""The top level of the repository holds what was agreed on, and nothing else."""

from __future__ import annotations

import ast
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ["replica", "controller", "cluster", "scenarios", "spark_reports"]
AGREED = [*PACKAGES, "highwater.py", "tests", "pyproject.toml", "README.md"]
CUSTOMARY = ["LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "setup.py"]


def test_no_two_test_modules_have_one_name() -> None:
    """The folders of tests are no packages: pytest could collect only the first of the two."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.soak
def test_a_helper_that_is_imported_by_its_name_alone_is_the_only_one_of_that_name() -> None:
    """The path has the folders of all tests that were collected: which of two is found depends on the order."""
    files = list((ROOT / "tests").rglob("*.py"))
    places: dict[str, list[str]] = {}
    for path in files:
        places.setdefault(path.stem, []).append(path.relative_to(ROOT).as_posix())
    imported = {
        node.module
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    assert [places[name] for name in sorted(imported & places.keys()) if len(places[name]) > 1] == []


def test_top_level_entries() -> None:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout: what is committed cannot be told from what is lying about")
    entries = dict.fromkeys(line.split("/")[0] for line in done.stdout.splitlines())
    visible = [entry for entry in entries if not entry.startswith(".")]
    missing = [entry for entry in AGREED if entry not in visible]
    strange = [entry for entry in visible if entry not in AGREED + CUSTOMARY]
    assert not missing, f"the repository should have {', '.join(missing)}"
    assert not strange, (
        f"{', '.join(strange)} should not be at the top level: five packages, highwater.py, tests/, pyproject.toml, "
        "README.md, and what a repository customarily keeps there"
    )
