"""What CI installs is what pyproject.toml asks for, and each file of it is known by its hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
LOCK = ROOT / ".ci" / "requirements.txt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ASKED_FOR = [
    *PROJECT["build-system"]["requires"],
    *PROJECT["project"]["dependencies"],
    *PROJECT["project"]["optional-dependencies"]["dev"],
]


def locked() -> dict[str, str]:
    pins = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", LOCK.read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


@pytest.mark.parametrize("wish", ASKED_FOR)
def test_the_lock_has_what_the_project_asks_for(wish: str) -> None:
    asked = Requirement(wish)
    name = canonicalize_name(asked.name)
    assert name in locked(), f"{LOCK.name} lacks {name}: run `make lock`"
    version = locked()[name]
    assert Version(version) in asked.specifier, f"{LOCK.name} has {name} {version}, not {wish}: run `make lock`"


def test_every_locked_package_has_hashes_and_no_address() -> None:
    text = LOCK.read_text()
    blocks = re.split(r"^(?=[A-Za-z0-9._-]+==)", text, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(locked()) > 0
    assert [block.split("==")[0] for block in blocks if "--hash=sha256:" not in block] == []
    assert "://" not in text and "--index-url" not in text and "--find-links" not in text


def test_pre_commit_has_the_locked_version_of_ruff() -> None:
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (ruff,) = [repo for repo in repos if repo["repo"].endswith("/ruff-pre-commit")]
    assert ruff["rev"] == f"v{locked()['ruff']}"


def test_the_workflow_runs_what_ci_runs() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    commands = [step.get("run") for job in workflow["jobs"].values() for step in job["steps"]]
    assert commands[-1] == ".ci/run" and (ROOT / ".ci" / "run").exists()
