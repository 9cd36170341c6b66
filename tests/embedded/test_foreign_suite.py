"""A service of somebody else's, with packages `cluster` and `tests`, tests itself with an installed Highwater.

The project is in `foreign/`: 12 tests with confluent-kafka, aiokafka and kafka-python. Four find a fault in the code
that they test; where the code is mended, all pass. What was measured is printed (`pytest -s`). On librdkafka's mock
cluster (`on_mock/`) one finds its fault.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import sysconfig
import time
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import pytest

import highwater
from scenarios.serve.control_place import own_directory
from tests.waiting import wait_for

pytestmark = pytest.mark.soak

ROOT = Path(highwater.__file__).parent
FAULTS = {
    "test_confirmed_orders_survive_the_leader": "order-0 was acked, but is not in the final log",
    "test_reported_orders_are_there": "assert 5 == 0",
    "test_an_invoice_is_sent_once_though_its_answer_is_lost": "1 RECORD STORED TWICE: invoice-2",
    "test_every_order_is_billed_though_the_biller_crashes": "Left contains one more item: 'order-2'",
}
"""Tests that fail, and what their message says."""
STARTS = 20
SETUPTOOLS = 77
"""The version that pyproject.toml builds with."""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment in which Highwater is installed by pip, not editable; the rest is that of this Python."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    leftovers = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "node_modules")
    for package in ("replica", "controller", "cluster", "scenarios", "spark_reports"):
        shutil.copytree(ROOT / package, source / package, ignore=leftovers)
    for name in ("highwater.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    packages = next((folder / "venv" / "lib").glob("python*/site-packages"))
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    python = folder / "venv" / "bin" / "python"
    # Without it pip fetches the setuptools that pyproject.toml asks for, as it does for anybody.
    has_builder = int(version("setuptools").partition(".")[0]) >= SETUPTOOLS
    if has_builder and (packages / "setuptools").is_dir():  # That of Python 3.11's venv is older, and would hide it.
        subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools"], check=True)
    words = ["-m", "pip", "install", "--quiet", "--no-deps", *(["--no-build-isolation"] if has_builder else [])]
    subprocess.run([python, *words, str(source)], check=True, env=clean_environment())
    assert (packages / "highwater.py").is_file()
    return python


def clean_environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "COV"))}
    return {**kept, "PYTHONPYCACHEPREFIX": "", **more}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    shutil.copytree(Path(__file__).parent / "foreign", tmp_path / "shop")
    return tmp_path / "shop"


def start(python: Path, shop: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [python, "-m", "pytest", "-q", "-n", "2", "--junitxml=junit.xml", f"--basetemp={shop / 'temporary'}", *words],
        cwd=shop,
        env=clean_environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def cases_of(python: Path, shop: Path, *words: str, **environment: str) -> tuple[dict[str, str], str]:
    """The message of each test, empty if it passed, and all that was printed."""
    process = start(python, shop, *words, **environment)
    said, _ = process.communicate(timeout=280)
    root = ElementTree.parse(shop / "junit.xml").getroot()
    assert not list(root.iter("error")) + list(root.iter("skipped")), said
    found = {case.get("name"): case.find("failure") for case in root.iter("testcase")}
    return {str(name): "" if failure is None else str(failure.text) for name, failure in found.items()}, said


def test_four_of_twelve_tests_find_the_fault_that_is_in_the_code(python: Path, shop: Path) -> None:
    began = time.monotonic()
    cases, said = cases_of(python, shop)
    print(f"\n12 tests of which 4 find a fault: {time.monotonic() - began:.1f} s")
    assert len(cases) == 12, said
    assert {name for name, message in cases.items() if message} == set(FAULTS), said
    for name, message in FAULTS.items():
        assert message in cases[name]
        assert "See it:  highwater view" in cases[name]


def test_all_pass_where_the_code_is_mended(python: Path, shop: Path) -> None:
    began = time.monotonic()
    cases, said = cases_of(python, shop, SHOP_FIXED="1")
    print(f"\n12 tests that pass: {time.monotonic() - began:.1f} s")
    assert len(cases) == 12
    assert not any(cases.values()), said


def test_librdkafkas_mock_cluster_finds_one_of_the_four_faults(python: Path, shop: Path) -> None:
    """scenarios/serve/MANUAL.md says why each of the others fails there."""
    shutil.copy(Path(__file__).parent / "on_mock" / "conftest.py", shop / "tests")
    words = ("-k", "key or survive or reported or billed_though")
    found = {}
    for fixed in ("", "1"):
        cases, said = cases_of(python, shop, *words, SHOP_FIXED=fixed)
        assert len(cases) == 4, said
        found[fixed] = {name for name, message in cases.items() if not message}
    assert found[""] == {"test_a_key_stays_in_its_partition"}
    assert found["1"] == {"test_a_key_stays_in_its_partition", "test_every_order_is_billed_though_the_biller_crashes"}


def test_a_pytest_that_is_killed_leaves_nothing(python: Path, shop: Path) -> None:
    process = start(python, shop, "-k", "invoice or outlives")
    ours = wait_for(lambda: serving_below(shop), 120, holds=lambda found: len(found) >= 2, pause_s=0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: [pid for pid in ours if Path(f"/proc/{pid}").exists()], 60, holds=lambda found: not found)
    wait_for(lambda: serving_below(shop), 60, holds=lambda found: not found, pause_s=0.2)
    process.communicate()
    assert not list((shop / "temporary").rglob("highwater-*"))
    assert not [pid for pid in ours if (own_directory() / f"{pid}.sock").exists()]


def serving_below(folder: Path) -> list[int]:
    """Processes of clusters whose run is kept in this folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"serve" in words and any(word.startswith(bytes(folder)) for word in words):
            found.append(int(place.parent.name))
    return found


def test_how_long_a_cluster_takes_to_start() -> None:
    took = []
    for _ in range(STARTS):
        began = time.monotonic()
        with highwater.cluster(topics={"orders": 3}):
            took.append(time.monotonic() - began)
    print(f"\nstart of a cluster of three brokers: median {statistics.median(took):.2f} s of {STARTS}")
    assert len(took) == STARTS
