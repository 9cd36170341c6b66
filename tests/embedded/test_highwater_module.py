"""`import highwater`: clusters and runs from Python, beside whatever else its process does."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer

import highwater
from scenarios.serve.control_place import own_directory
from tests.soak import one_in
from tests.waiting import wait_for

ROOT = Path(highwater.__file__).parent
QUICK = {"broker.session.timeout.ms": 2000}
"""Kafka's default keeps a dead leader for nine seconds."""


def send(bootstrap: str, topic: str, count: int, **config: object) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **config})
    for number in range(count):
        producer.produce(topic, value=f"v{number}")
    assert producer.flush(30) == 0


def python(program: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    """A program in a folder that Python searches for modules, as it does for scripts and with PYTHONPATH."""
    (folder / "program.py").write_text(program)
    path = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def test_it_imports_the_standard_library_only(tmp_path: Path) -> None:
    """pytest imports it in every session: so it costs no more than a handful of modules that pytest has not."""
    program = "import sys, pytest; before = set(sys.modules); import highwater; print(*set(sys.modules) - before)"
    imported = output_of(python(program, tmp_path)).split()
    assert "highwater" in imported
    assert [name for name in imported if name.split(".")[0] not in sys.stdlib_module_names] == ["highwater"]
    assert len(imported) < 10, imported


def test_a_leader_dies_with_what_it_alone_has_acked(tmp_path: Path) -> None:
    with highwater.cluster(topics={"orders": 1}, config=QUICK, record=tmp_path) as kafka:
        kafka.wait_until("isr(orders-0) == 3")
        assert "held back" in kafka.fault("hold b1-b2 Fetch")
        kafka.fault({"hold": {"from": "b1", "to": "b3", "api": "Fetch"}})
        send(kafka.bootstrap_servers, "orders", 5, acks=1)
        assert kafka.fault("kill leader(orders-0)") == "b1 was killed"
        kafka.wait_until("leader(orders-0) != b1")
        kafka.wait_until({"b1": {"running": False}})
        with pytest.raises(highwater.HighwaterError, match="until the cluster has stopped"):
            _ = kafka.verdict
        assert "b1 was killed" in kafka.log
    verdict = kafka.verdict
    assert verdict.lost == ["v0", "v1", "v2", "v3", "v4"]
    assert not verdict.ok
    assert verdict.kinds == ["lost"]
    assert [one["kind"] for one in verdict.anomalies] == ["lost"]
    assert "5 ACKED RECORDS LOST: v0..v4" in str(verdict)
    assert "b1 was killed" in verdict.explain(verdict.lost[0])
    assert kafka.is_kept
    assert (verdict.run_dir / "summary.json").is_file()


@pytest.mark.soak
def test_errors_on_demand(tmp_path: Path) -> None:
    with highwater.cluster(brokers=1, topics={"orders": (1, 1)}, record=tmp_path) as kafka:
        said = kafka.fail("Produce", errors=["NOT_LEADER_OR_FOLLOWER"] * 2, when="after")
        assert said == "the next 2 Produce requests at b1 get NOT_LEADER_OR_FOLLOWER after they are carried out"
        send(kafka.bootstrap_servers, "orders", 1, acks=1)
        kafka.fail("Produce", errors=["NOT_LEADER_OR_FOLLOWER"] * 2, when="after", lasting="30s")
        idempotent = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
        idempotent.produce("orders", value="w0")
        assert idempotent.flush(30) == 0
        with pytest.raises(highwater.HighwaterError, match="did you mean `NOT_LEADER_OR_FOLLOWER`"):
            kafka.fail("Produce", errors="NOT_LEADER_OF_FOLLOWER")
        assert not kafka.state["faults"]
        with pytest.warns(UserWarning, match="do not answer Heartbeat with MESSAGE_TOO_LARGE"):
            kafka.fail("Heartbeat", errors=["MESSAGE_TOO_LARGE"])
    assert kafka.verdict.duplicated == ["v0"]
    (anomaly,) = kafka.verdict.anomalies
    assert "fail-1" in anomaly["sentence"]
    assert "(fault `fail-1`)" in kafka.verdict.explain("v0")


@pytest.mark.soak
def test_a_good_run_is_removed_with_its_verdict(tmp_path: Path) -> None:
    with highwater.cluster(brokers=1, topics={"orders": (2, 1)}, record=tmp_path) as kafka:
        send(kafka.bootstrap_servers, "orders", 3)
    assert kafka.verdict.ok
    assert sorted(kafka.verdict.records["acked"]) == ["v0", "v1", "v2"]
    assert "v0 is safe" in kafka.verdict.explain("v0")
    del kafka
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
def test_a_run_is_kept_where_the_block_failed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as failed, highwater.cluster(brokers=1, record=tmp_path) as kafka:
        raise ZeroDivisionError
    assert failed.value.__notes__ == [f"highwater: the run is kept; view it: highwater view {kafka.run_dir} --open"]
    assert (kafka.run_dir / "summary.json").is_file()


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("kil b1", "did you mean `kill`?"),
        ("kill b9", "are b1, c1"),
        ("start b1", "b1 is already running"),
        ({"cut": 3}, "must be a mapping"),
        ("end nothing", "no fault named nothing is in force"),
        ("pause b1 --for soon", "soon"),
        ("", "neither a step nor a question"),
        ("kill 'b1", "`kill 'b1` cannot be split into arguments: No closing quotation"),
    ],
)
def test_a_step_that_cannot_be_done_raises_the_text_of_the_command(
    one_broker: highwater.Cluster, step: str, said: str
) -> None:
    with pytest.raises(highwater.HighwaterError) as refused:
        one_broker.fault(step)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("isr(orders-0) = 3", "is not a condition: write isr(orders-0) == 3"),
        ("hw(orders-0) == b1", "compare hw with a number"),
        ("isr(orders-0) > b1", "compare isr with a number, or with brokers by =="),
        ("hw(orders) > 3", "orders"),
        ({"nope": 3}, "unknown broker `nope`"),
        ("{", "error"),
        ("isr(orders-0) == 3", "was still false after 0.1 s: isr of orders-0 is {b1}"),
        ("leader(none-0) == b1", "was still false after 0.1 s: there is no none-0"),
        ({"b1": {"running": False}}, "was still false after 0.1 s: b1: expected down, found running"),
    ],
)
def test_a_condition_that_does_not_hold_says_what_there_is(
    one_broker: highwater.Cluster, condition: str, said: str
) -> None:
    with pytest.raises(highwater.HighwaterError) as refused:
        one_broker.wait_until(condition, timeout=0.1)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "condition",
    [
        "isr(orders-0) == 1",
        "isr(orders-0) == {b1}",
        "isr(orders-0) != b2",
        "leader(orders-0) == b1",
        "leader(orders-0) != none",
        "elr(orders-0) == 0",
        "elr(orders-0) == none",
        "epoch(orders-0) <= 5",
        "hw(orders-0)>=0",
        "leo(orders-0) < 1",
        {"orders-0": {"isr": ["b1"], "leo": 0}},
    ],
)
def test_a_condition_that_holds_is_not_waited_for(one_broker: highwater.Cluster, condition: str) -> None:
    one_broker.wait_until(condition, timeout=0)


@pytest.mark.soak
def test_heal_mends_what_was_broken_in_any_way(tmp_path: Path) -> None:
    with highwater.cluster(topics={"orders": 1}, config=QUICK, record=tmp_path) as kafka:
        for step in ("pause b2", "cut b1-b3", "stop b3", "kill b1"):
            kafka.fault(step)
        assert kafka.create_topic("later", 2) == "later"
        kafka.heal()
        assert kafka.state["faults"] == []
        kafka.wait_until("isr(orders-0) == 3")
        kafka.wait_until("isr(later-1) >= 1")


@pytest.mark.soak
def test_a_cluster_that_does_not_come_up_raises_the_text_of_the_command(tmp_path: Path) -> None:
    with pytest.raises(highwater.HighwaterError, match="50 is not in the range"), highwater.cluster(brokers=50):
        pass
    with pytest.raises(highwater.HighwaterError, match="did not start within 0 s"):
        highwater.cluster(record=tmp_path, timeout=0).start()
    with pytest.raises(highwater.HighwaterError, match=r"`profile` cannot be `kafka-9\.9`"):
        highwater.cluster(era="kafka-9.9").start()


@pytest.mark.soak
def test_a_cluster_that_cannot_be_asked_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "highwater").mkdir(mode=0o755)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    kafka = highwater.cluster(brokers=1, topics={"t": 1}).start()
    with pytest.raises(highwater.HighwaterError, match="must belong to this user"):
        kafka.fault("kill b1")
    assert kafka.stop().ok
    with pytest.raises(highwater.HighwaterError, match=r"^the cluster is not running$"):
        kafka.fault("kill b1")


@pytest.mark.soak
def test_clusters_of_several_threads_and_of_a_coroutine() -> None:
    """A cluster outlives the thread that started it."""
    found: list[highwater.Cluster] = []
    threads = [
        threading.Thread(target=lambda: found.append(highwater.cluster(brokers=1, topics={"t": 1}).start()))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def use() -> highwater.Verdict:
        async with highwater.cluster(brokers=1, topics={"t": 1}) as kafka:
            await asyncio.to_thread(send, kafka.bootstrap_servers, "t", 2)
        return kafka.verdict

    assert asyncio.run(use()).ok
    assert len({kafka.bootstrap_servers for kafka in found}) == 2
    for kafka in found:
        send(kafka.bootstrap_servers, "t", 2)
        assert kafka.stop().records["acked"] == ["v0", "v1"]


FOREIGN = """
import cluster, scenarios, replica, tests, highwater
with highwater.cluster(brokers=1) as kafka:
    kafka.fault("pause b1 --for 100ms")
assert kafka.verdict.ok
assert highwater.run("acks1-leader-kill", variant="acks-all").ok
print(cluster.MINE, scenarios.MINE, replica.MINE, tests.MINE)
"""


@pytest.mark.soak
def test_it_never_imports_packages_of_the_user_that_are_called_as_ours(tmp_path: Path) -> None:
    for name in ("cluster", "scenarios", "replica", "tests", "controller", "trio", "click", "yaml"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"MINE = {name!r}\nopen('imported-{name}', 'a').write('.')\n")
    assert output_of(python(FOREIGN, tmp_path)) == "cluster scenarios replica tests\n"
    imported = {path.name: path.read_text() for path in tmp_path.glob("imported-*")}
    assert imported == {f"imported-{name}": "." for name in ("cluster", "scenarios", "replica", "tests")}


PARENT = """
import os, sys, time, highwater
kafka = highwater.cluster(processes=%r, record="record").start()
if os.fork() == 0:  # It has every open file of this process, and outlives it.
    time.sleep(600)
print(kafka.bootstrap_servers, kafka._process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.soak
@pytest.mark.parametrize("in_processes", one_in(2, [False, True]))
def test_a_cluster_ends_with_its_parent_and_leaves_nothing(tmp_path: Path, in_processes: bool) -> None:
    parent = python(PARENT % in_processes, tmp_path)
    _, pid = parent.stdout.readline().split()
    children = [int(pid), *descendants(int(pid))]
    (fork,) = [one for one in descendants(parent.pid) if one not in children]
    assert (own_directory() / f"{pid}.sock").exists()
    parent.kill()
    parent.wait()
    try:
        wait_for(lambda: [one for one in children if is_running(one)], holds=lambda found: not found)
        assert list((tmp_path / "record").iterdir()) == []
        assert not list(own_directory().glob(f"{pid}.*"))
    finally:
        os.kill(fork, signal.SIGKILL)
        parent.communicate()


@pytest.mark.soak
def test_a_cluster_that_is_killed_leaves_no_socket(tmp_path: Path) -> None:
    kafka = highwater.cluster(record=tmp_path).start()
    served = Path(json.loads(next(tmp_path.rglob(".serving.json")).read_bytes())["socket"])
    assert served.exists()
    kafka.kill()
    assert not list(served.parent.glob(f"{served.stem}.*"))


def descendants(pid: int) -> list[int]:
    children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*children, *(below for child in children for below in descendants(child))]


def is_running(pid: int) -> bool:
    """A process that nobody has waited for is none any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.soak
def test_a_run_as_python_objects(tmp_path: Path) -> None:
    run = highwater.run("acks1-leader-kill", seed=7, set={"workloads.p1.config.linger.ms": 1}, record=tmp_path)
    assert run.held
    assert run.verdict.lost == ["r10", "r11", "r12", "r13", "r14"]
    assert run.summary["seed"] == 7
    assert {outcome: len(names) for outcome, names in run.records.items() if names} == {"acked": 20, "lost": 5}
    committed = run.table("isr_committed")
    assert committed.column("isr").to_pylist() == [["b2", "b3"], ["b2", "b3", "b1"]]
    assert set(run.table("control").column("event").to_pylist()) > {"isr_committed", "leader_elected"}
    with pytest.raises(highwater.HighwaterError, match="no table or event `isr`"):
        run.table("isr")
    assert run.view().read_text().startswith("<!")
    assert "Why record r10 was lost" in run.explain()
    run_dir = run.run_dir
    del run
    assert not run_dir.exists()


def test_a_run_that_is_not_valid_raises_the_text_of_the_command(tmp_path: Path) -> None:
    with pytest.raises(highwater.HighwaterError, match="Did you mean `acks1-leader-kill`"):
        highwater.run("acks1-leader-kil")
    with pytest.raises(highwater.HighwaterError, match="took longer than 0"):
        highwater.run("acks1-leader-kill", timeout=0.01)
    (tmp_path / "bad.yaml").write_text("nope: 1")
    with pytest.raises(highwater.HighwaterError, match="unknown field `nope`"):
        highwater.run(tmp_path / "bad.yaml")


@pytest.mark.soak
def test_a_comparison_has_the_table_and_each_summary() -> None:
    compared = highwater.compare("acks1-leader-kill", variants=["base", "acks-all"])
    assert [len(one["records"]["lost"]) for one in compared.runs] == [5, 0]
    assert compared["acks-all"]["verdict"] == []
    assert "acked, then lost" in str(compared)
    page = compared.view()
    assert page.read_text().startswith("<!")
    del compared
    assert not page.exists()


@pytest.mark.soak
def test_the_notebook_for_a_class_says_what_happens() -> None:
    said = runpy.run_path(str(ROOT / "spark_reports" / "notebook" / "acks.py"))
    assert said["counted"]["1"]["lost"] == 5
    assert said["counted"]["all"]["lost"] == said["counted"]["0"]["lost"] == 0
    assert said["counted"]["0"]["acked"] == 0 < said["counted"]["0"]["missing"]
    assert said["latencies"]["1"][-1] < 1000 < said["latencies"]["all"][-1]
