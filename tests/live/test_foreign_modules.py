"""Modules of the user's that are called as ours are: in the current directory, or where PYTHONPATH points to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kafka import KafkaProducer
from serving import ROOT, program, serving
from verdicts import expect_nothing_broken

from tests.soak import one_in

FOREIGN = ("cluster", "controller", "replica", "spark_reports", "yaml", "trio", "kio", "networkx", "pyarrow")


def spoil(directory: Path, *packages: str) -> Path:
    """Modules that leave a mark when they are run."""
    directory.mkdir()
    mark = f"open({str(directory)!r} + '/ran-' + __name__, 'w').close()\n"
    for name in FOREIGN:
        (directory / f"{name}.py").write_text(mark)
    for name in packages:
        (directory / name).mkdir()
        (directory / name / "__init__.py").write_text(mark)
    return directory


def marks(directory: Path) -> list[str]:
    return [path.name for path in directory.glob("ran-*")]


@pytest.mark.soak
@pytest.mark.parametrize("where", one_in(2, ["current directory", "PYTHONPATH"]))
def test_processes_of_a_cluster_run_none_of_them(tmp_path: Path, where: str) -> None:
    """Python runs a package `scenarios` on PYTHONPATH instead of ours, before ours can report an error."""
    in_path = where == "PYTHONPATH"
    foreign = spoil(tmp_path / "foreign", *([] if in_path else ["scenarios"]))
    record = tmp_path / "record" if in_path else foreign
    record.mkdir(exist_ok=True)
    path = (foreign, ROOT) if in_path else (ROOT,)
    with serving(record, "--processes", program=program(tmp_path / "bin"), path=path) as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks="all")
        assert producer.send("orders", value=b"hello").get(20)
        producer.close()
        served.stop()
    assert served.summary["records"]["acked"] == ["hello"]
    expect_nothing_broken(served.summary)
    assert marks(foreign) == []


@pytest.mark.soak
def test_verify_runs_none_of_them(tmp_path: Path) -> None:
    foreign = spoil(tmp_path / "foreign", "scenarios")
    words = [sys.executable, str(program(tmp_path / "bin")), "verify", "acks1-leader-kill", "--variant", "base"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=foreign, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "identical" in done.stdout, done.stderr
    assert marks(foreign) == []
