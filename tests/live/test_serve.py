"""A cluster for clients of other projects."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from itertools import takewhile
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from serving import ROOT, command, fault, free_ports, program, serving
from verdicts import expect_nothing_broken

from replica.trace.events import BatchAppended, BatchSent, RecordAcked, RequestCompleted
from scenarios.observe.trace_writer import read_rows
from scenarios.run.runs import list_runs, list_unjudged, read_summary
from tests.soak import one_in
from tests.waiting import wait_for

pytestmark = pytest.mark.live


def test_a_client_writes_and_reads_and_the_run_is_kept(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "orders:3:3") as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks="all", enable_idempotence=False)
        sent = [producer.send("orders", value=f"order-{number}".encode()) for number in range(50)]
        producer.flush(10)
        assert all(future.get(1).offset >= 0 for future in sent)
        producer.close()
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=served.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=2000
        )
        assert sorted(record.value for record in consumer) == sorted(f"order-{n}".encode() for n in range(50))
        consumer.close()
        served.stop()
    assert served.summary["live"]
    expect_nothing_broken(served.summary)
    assert sum(len(log) for log in served.summary["logs"].values()) == 50
    assert served.summary["bytes"]["fetch_payload_through_python"] == 0


@pytest.mark.soak
@pytest.mark.parametrize("number", one_in(2, [signal.SIGTERM, signal.SIGHUP]))
def test_whatever_asks_it_to_end_the_run_is_kept(tmp_path: Path, number: signal.Signals) -> None:
    """SIGHUP: the terminal that it was started in is closed."""
    with serving(tmp_path) as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap)
        producer.send("orders", value=b"hello").get(20)
        producer.close()
        served.stop(number)
    assert served.summary["records"]["acked"] == ["hello"]
    expect_nothing_broken(served.summary)


@pytest.mark.soak
def test_at_the_end_of_its_time_the_run_is_judged_as_by_ctrl_c(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "orders:1:3", "--for", "6s") as served:
        assert "The cluster stops after 6 s or on Ctrl-C, and its run is kept." in served.ready[-1]
        producer = KafkaProducer(bootstrap_servers=served.bootstrap)
        producer.send("orders", value=b"hello").get(20)
        producer.close()
        output, errors = served.process.communicate(timeout=60)
        assert served.process.returncode == 0, errors
    assert "the time of --for is over; judging the run (Ctrl-C skips the verdict)" in output
    summary = read_summary(tmp_path / (tmp_path / "last").read_text().strip())
    assert summary["records"]["acked"] == ["hello"] and summary["virtual_s"] >= 6
    expect_nothing_broken(summary)


@pytest.mark.soak
@pytest.mark.parametrize(("kinds", "code"), [(("duplicated",), 0), (("duplicated", "lost"), 1)])
def test_it_fails_on_what_must_not_happen(kinds: tuple[str, ...], code: int, tmp_path: Path) -> None:
    fail_on = [word for kind in kinds for word in ("--fail-on", kind)]
    with serving(tmp_path, "--topic", "t:1:1", *fail_on, brokers=1) as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap)
        producer.send("t", value=b"hello").get(20)
        for words in (("kill", "b1"), ("wipe", "b1"), ("start", "b1")):
            fault(tmp_path, *words)
        producer.close(1)
        served.end()
        assert served.process.returncode == code, served.errors
    assert served.summary["records"]["lost"] == ["hello"]


@pytest.mark.soak
def test_ctrl_c_ends_it_before_its_time(tmp_path: Path) -> None:
    with serving(tmp_path, "--for", "1h", brokers=1) as served:
        served.stop()
    assert "stopping the cluster and judging the run (Ctrl-C again skips the verdict)" in served.output
    expect_nothing_broken(served.summary)


@pytest.mark.soak
def test_topics_that_clients_make_and_delete_are_lines_of_its_terminal(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "orders:1:3") as served:
        admin = KafkaAdminClient(bootstrap_servers=served.bootstrap)
        admin.create_topics([NewTopic("payments", num_partitions=2, replication_factor=3)])
        wait_for(lambda: "payments" in admin.list_topics())
        admin.delete_topics(["payments"])
        admin.close()
        assert served.process.stderr is not None
        said = list(takewhile(lambda line: "deleted topic payments" not in line, served.process.stderr))
        served.stop()
    assert [line for line in said if "topic payments was created: 2 partitions, RF 3; b" in line]
    assert "orders was created" not in "".join(said) and "deleted topic payments" not in served.errors
    expect_nothing_broken(served.summary)


@pytest.mark.soak
def test_a_port_that_is_taken_ends_with_one_clear_error(tmp_path: Path) -> None:
    port = free_ports(1)
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        done = subprocess.run(
            command("--brokers", "1", "--port", str(port), "--record", str(tmp_path)),
            capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60,
        )  # fmt: skip
    assert done.returncode == 6
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr and "--port" in done.stderr
    assert "Traceback" not in done.stderr and not list(tmp_path.glob("0*"))


@pytest.mark.soak
@pytest.mark.parametrize("world", one_in(2, [(), ("--processes",)]), ids=["tasks", "processes"])
def test_without_client_records_no_request_is_told_either(tmp_path: Path, world: tuple[str, ...]) -> None:
    with serving(tmp_path, "--topic", "t:1:1", "--no-client-records", *world, brokers=1) as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks="all")
        producer.send("t", b"one").get(20)
        producer.close()
        served.stop()
    rows = read_rows(tmp_path / (tmp_path / "last").read_text().strip() / "trace")
    kinds = [type(row.event) for row in rows]
    assert BatchAppended in kinds and RequestCompleted not in kinds and BatchSent not in kinds


@pytest.mark.soak
def test_judging_that_takes_a_while_says_how_far_it_is(tmp_path: Path) -> None:
    first = (
        "import time, scenarios.run.runner as slow\nstate = slow.state_final_logs\n"
        "slow.state_final_logs = lambda *given: (time.sleep(0.6), state(*given))"
    )
    record = tmp_path / "runs"
    record.mkdir()
    with serving(record, "--topic", "t:1:1", brokers=1, program=program(tmp_path / "program", first)) as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks="all")
        for _ in range(20):
            producer.send("t", b"one").get(20)
        producer.close()
        served.stop()
    said = [line for line in served.errors.splitlines() if line.startswith("judging the run: ")]
    assert said[-1] == "judging the run: 70 % reading the logs: 20 records" and len(said) < 9
    expect_nothing_broken(served.summary)


@pytest.mark.soak
@pytest.mark.parametrize(
    "stage", one_in(3, ["run.runner.state_final_logs", "run.runner.judge", "run.runner.write_json"])
)
def test_a_second_ctrl_c_gives_up_on_the_verdict_and_keeps_the_trace(tmp_path: Path, stage: str) -> None:
    module, _, name = f"scenarios.{stage}".rpartition(".")
    first = f"import time, {module} as slow\nslow.{name} = lambda *_, **__: time.sleep(20)"
    record = tmp_path / "runs"
    record.mkdir()
    with serving(record, "--topic", "t:1:1", brokers=1, program=program(tmp_path / "program", first)) as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks="all")
        producer.send("t", b"one").get(20)
        producer.close()
        served.process.send_signal(signal.SIGINT)
        assert served.process.stdout is not None
        said = [served.process.stdout.readline() for _ in range(3)]  # Below an empty line of the banner and its own.
        assert said[2] == "  stopping the cluster and judging the run (Ctrl-C again skips the verdict)\n"
        wait_for(lambda: list(record.glob(".run-*/trace/*/part-*")))
        time.sleep(0.5)
        served.process.send_signal(signal.SIGINT)
        out, errors = served.process.communicate(timeout=60)
    assert served.process.returncode == 130, errors
    (kept,) = record.glob("0*")
    assert "no verdict. The trace until the cluster stopped and the brokers' logs are kept in" in out
    assert out.strip().endswith(str(kept))
    assert any(isinstance(row.event, RecordAcked) for row in read_rows(kept / "trace"))
    assert list_runs(record) == [] and list_unjudged(record) == [kept]
    assert (kept / "logs" / "b1").is_dir() and not list(record.glob(".run-*"))
