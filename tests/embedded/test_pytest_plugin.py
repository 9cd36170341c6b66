"""The pytest plugin, in projects that know nothing of Highwater but that it is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import highwater
from scenarios.language.expect import ANOMALIES
from tests.catalogue import bundled_file

ROOT = Path(highwater.__file__).parent
SEND = """
import pytest
from confluent_kafka import Producer

def send(servers, topic, count, **config):
    producer = Producer({"bootstrap.servers": servers, **config})
    for number in range(count):
        producer.produce(topic, value=f"v{number}")
    assert producer.flush(30) == 0

"""
LOSS = """
def lose(kafka):
    kafka.fault("hold b1-b2 Fetch")
    kafka.fault("hold b1-b3 Fetch")
    send(kafka.bootstrap_servers, "t", 2, acks=1)
    kafka.fault("kill b1")
    kafka.wait_until("leader(t-0) != b1")
"""
SETTINGS = """
[tool.pytest.ini_options]
highwater_topics = ["t:1"]
highwater_config = ["broker.session.timeout.ms=2000"]
"""


PROJECT_FILES = ("pyproject.toml", "test_it.py", "junit.xml", "__pycache__")


class Project:
    """A folder with tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("pyproject.toml", SETTINGS)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_text(text)

    def test(self, *words: str) -> tuple[dict[str, int], str, ElementTree.Element]:
        """Run its tests; return how many ended how, what the terminal had, and JUnit's document."""
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "highwater", "--junitxml=junit.xml", "-q", "-rA", *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "COLUMNS": "150"},
            capture_output=True,
            text=True,
            timeout=240,
        )
        root = ElementTree.parse(self.folder / "junit.xml").getroot()
        (suite,) = root.iter("testsuite")
        counts = {name: int(suite.get(name)) for name in ("tests", "failures", "errors")}
        return counts, done.stdout + done.stderr, suite


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.soak
def test_a_cluster_for_a_test_and_one_for_the_session(project: Project) -> None:
    project.write(
        "test_it.py",
        SEND
        + """
seen = []

def test_own(kafka_cluster):
    send(kafka_cluster.bootstrap_servers, "t", 2)
    assert kafka_cluster.faults == []

@pytest.mark.highwater(brokers=1, topics={"mine": (2, 1)})
def test_marked(kafka_cluster):
    assert [one["partition"] for one in kafka_cluster.state["partitions"]] == ["mine-0", "mine-1"]

@pytest.mark.parametrize("turn", range(3))
def test_shared(kafka, turn):
    assert kafka.topic() == kafka.topic()
    send(kafka.bootstrap_servers, kafka.topic(partitions=1), turn + 1)
    kafka.fault("pause b3")
    seen.append((kafka.bootstrap_servers, kafka.topic(), kafka.name("group")))

def test_shared_is_healed_and_one(kafka):
    assert kafka.cluster.state["faults"] == []
    assert len({one[0] for one in seen}) == 1
    assert len({one[1] for one in seen}) == len({one[2] for one in seen}) == 3
""",
    )
    counts, said, _ = project.test()
    assert counts == {"tests": 6, "failures": 0, "errors": 0}, said
    assert "highwater" not in said.split("PASSES")[0]


def test_a_test_that_failed_leaves_its_run_and_says_how_to_see_it(project: Project) -> None:
    project.write(
        "test_it.py", SEND + "def test_bad(kafka_cluster):\n    kafka_cluster.fault('kill b2')\n    assert 0\n"
    )
    counts, said, suite = project.test()
    assert counts == {"tests": 1, "failures": 1, "errors": 0}
    failure = suite.find("testcase/failure").text
    for text in (said, failure):
        (line,) = [line for line in text.splitlines() if "See it:  highwater view" in line and "--open" in line][:1]
        run_dir = Path(line.split()[4])
        assert (run_dir / "summary.json").is_file()
        assert "b2" in text
    assert "highwater verdict at teardown" in said


@pytest.mark.soak
def test_a_loss_without_a_fault_or_of_a_kind_that_was_named_fails_the_test(project: Project) -> None:
    body = "    lose(kafka_cluster)\n"
    silent = "    kafka_cluster.faults.clear()  # as if another hand had done it\n"
    project.write(
        "test_it.py",
        SEND
        + LOSS
        + f"def test_expects_it(kafka_cluster):\n{body}\n"
        + f"@pytest.mark.highwater(fail_on=['lost'])\ndef test_named(kafka_cluster):\n{body}\n"
        + f"def test_silent(kafka_cluster):\n{body}{silent}\n"
        + f"@pytest.mark.highwater(fail_on=[])\ndef test_says_otherwise(kafka_cluster):\n{body}{silent}\n",
    )
    counts, said, suite = project.test("-n", "2")
    assert counts == {"tests": 4, "failures": 0, "errors": 2}, said
    bad = {
        case.get("name"): case.find("error").text for case in suite.iter("testcase") if case.find("error") is not None
    }
    assert sorted(bad) == ["test_named", "test_silent"]
    for text in bad.values():
        assert re.search("lost: 2 records were acked, but are not in the log of b[23]: v0..v1", text)
        assert "Why:     highwater explain" in text


MISUSES = {
    "broker=3": "the marker `highwater` does not accept `broker`; it accepts brokers=, topics=",
    "3": "the marker `highwater` does not accept 3; it accepts brokers=",
    "topics=['t:3']": """topics must be a mapping, such as {"orders": 3}, not ['t:3']""",
    "topics={'t': 'three'}": "`t:three`: partitions and replication factor must be numbers",
    "config=['min.insync.replicas=2']": """config must be a mapping, such as {"min.insync.replicas": 2}""",
    "config={'min.insync.replica': 2}": "did you mean `min.insync.replicas`?",
    "fail_on='losst'": "`losst` is not a kind of anomaly; fail_on accepts any, lost",
    "era='3.9'": "did you mean `kafka-3.9`?",
    "scenario='nope.yaml'": "cannot read `nope.yaml`",
}


@pytest.mark.soak
def test_what_a_marker_does_not_take_is_told_without_a_traceback(project: Project) -> None:
    tests = (
        f"@pytest.mark.highwater({given})\ndef test_{number}(kafka_cluster):\n    pass\n\n"
        for number, given in enumerate(MISUSES)
    )
    project.write("test_it.py", "import pytest\n\n" + "".join(tests))
    counts, said, suite = project.test()
    assert counts == {"tests": len(MISUSES), "failures": 0, "errors": len(MISUSES)}, said
    for case, wanted in zip(suite.iter("testcase"), MISUSES.values(), strict=True):
        text = case.find("error").text
        assert wanted in text
        assert "highwater.py" not in text and "python -m" not in text and "Traceback" not in text


@pytest.mark.soak
@pytest.mark.parametrize("setting", ["brokers = 'many'", "topics = ['t:x']", "config = ['min.insync.replicas']"])
def test_a_setting_that_has_no_meaning_is_told_without_a_traceback(project: Project, setting: str) -> None:
    project.write("pyproject.toml", f"[tool.pytest.ini_options]\nhighwater_{setting}\n")
    project.write("test_it.py", "def test_it(kafka):\n    pass\n")
    counts, said, _ = project.test()
    assert counts == {"tests": 1, "failures": 0, "errors": 1}, said
    assert "the cluster did not start" in said and "highwater.py" not in said


@pytest.mark.soak
def test_a_refused_step_shows_the_line_of_the_test_alone(project: Project) -> None:
    project.write("test_it.py", "def test_it(kafka_cluster):\n    kafka_cluster.fault('destroy b1')\n")
    _, _, suite = project.test()
    failure = suite.find("testcase/failure").text
    assert "unknown fault `destroy`" in failure and ">       kafka_cluster.fault('destroy b1')" in failure
    assert "highwater.py" not in failure.partition("See it:")[0]


@pytest.mark.soak
def test_a_cluster_with_a_scenario_is_judged_in_place_of_the_projects_own(project: Project) -> None:
    project.write(
        "own.yaml",
        "{schema: 1, id: own, title: One broker, duration: 60s, cluster: {brokers: {b1: {}}}, workloads: {}, "
        "topics: {mine: {partitions: 1, replication_factor: 1}}, timeline: []}",
    )
    project.write(
        "test_it.py",
        """
import pytest

@pytest.mark.highwater(scenario="own.yaml", config={"log.retention.ms": -1})
def test_it(kafka_cluster):
    assert [one["partition"] for one in kafka_cluster.state["partitions"]] == ["mine-0"]
    assert kafka_cluster.stop().run_dir.name == "0001-own"
""",
    )
    counts, said, _ = project.test()
    assert counts == {"tests": 1, "failures": 0, "errors": 0}, said


def test_the_kinds_of_fail_on_are_those_of_verdicts() -> None:
    assert highwater._KINDS == ANOMALIES


@pytest.mark.soak
def test_a_loss_on_a_shared_cluster_names_its_test(project: Project) -> None:
    project.write(
        "test_it.py",
        SEND
        + """
@pytest.mark.highwater(fail_on="lost")
def test_loses(kafka):
    topic = kafka.topic()
    leader = kafka.cluster.state["partitions"][-1]["leader"]
    (leader,) = [one["leader"] for one in kafka.cluster.state["partitions"] if one["partition"] == topic + "-0"]
    for broker in {"b1", "b2", "b3"} - {leader}:
        kafka.fault(f"hold {leader}-{broker} Fetch")
    send(kafka.bootstrap_servers, topic, 2, acks=1)
    kafka.fault(f"kill {leader}")
    kafka.wait_until(f"leader({topic}-0) != {leader}")

def test_harmless(kafka):
    send(kafka.bootstrap_servers, kafka.topic(), 2)
""",
    )
    counts, said, suite = project.test()
    assert counts == {"tests": 2, "failures": 0, "errors": 1}, said
    assert "test_it.py::test_loses: lost: 2 records were acked" in suite.find("testcase/error").text


@pytest.mark.soak
def test_scenario_files_are_tests_one_for_each_variant(project: Project) -> None:
    text = bundled_file("acks1-leader-kill").text
    project.write("tests/good.highwater.yaml", text)
    project.write("tests/wrong.highwater.yaml", text.replace("lost: r10..r14,", "lost: r10..r13,"))
    project.write("tests/invalid.highwater.yaml", "nope: 1")
    project.write("tests/other.yaml", "nope: 1")
    (project.folder / "tests/bytes.highwater.yaml").write_bytes(b"\xff variants: [{id: [x]}]")
    counts, said, suite = project.test("-n", "2")
    assert counts == {"tests": 8, "failures": 3, "errors": 0}, said
    cases = {(case.get("classname"), case.get("name")): case.find("failure") for case in suite.iter("testcase")}
    names = [name for _, name in cases]
    assert sorted(names) == ["acks-0", "acks-0", "acks-all", "acks-all", "base", "base", "base", "base"]
    failed = sorted((one for one in cases.values() if one is not None), key=lambda one: -len(one.text))
    wrong, invalid, not_text = failed
    assert wrong.get("message") is not None
    assert wrong.text.startswith("records.lost: expected r10..r13, found r10..r14 (5)")
    assert "5 ACKED RECORDS LOST: r10..r14" in wrong.text
    assert "● marks the decisive steps" in wrong.text
    assert "See it:  highwater view" in wrong.text
    assert invalid.text.startswith("error[E104]: unknown field `nope`")
    assert "UTF-8" in not_text.text
    counts, _, _ = project.test("-k", "good and acks-all")
    assert counts == {"tests": 1, "failures": 0, "errors": 0}


def test_a_session_that_does_not_use_it_pays_for_nothing(project: Project) -> None:
    project.write(
        "test_it.py",
        """
import sys

def test_nothing_of_it_is_there():
    assert "highwater" in sys.modules
    found = {name.split(".")[0] for name in sys.modules}
    assert not found & {"cluster", "scenarios", "replica", "controller", "spark_reports", "trio", "yaml", "pyarrow"}
""",
    )
    counts, said, _ = project.test(
        "-p", "no:xdist", "-p", "no:trio", "-p", "no:hypothesispytest", "-p", "no:cacheprovider"
    )
    assert counts == {"tests": 1, "failures": 0, "errors": 0}, said
    assert not [path for path in project.folder.iterdir() if path.name not in PROJECT_FILES]
