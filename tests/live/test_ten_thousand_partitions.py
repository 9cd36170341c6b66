"""10,000 partitions on three brokers come up, serve, fail over and come back, and a produce is answered all the while.

`pytest -m soak -s tests/live/test_ten_thousand_partitions.py` prints what it took; HIGHWATER_SOAK says how many.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving import Served, fault, serving

from tests.waiting import wait_for

COUNT = int(os.environ.get("HIGHWATER_SOAK", "10000"))
PER_REQUEST = 1000
PATIENCE_S = 600
"""The client's own: a request without an answer by then has failed."""
PAUSE_S = 2
"""Between two looks at everything there is, which cost the cluster something."""


class HonestProducer:
    """One record after the other to its own topic, each acknowledged by all in-sync replicas."""

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka import Producer

        self.acked = 0
        self.errors: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 0,
                "message.timeout.ms": PATIENCE_S * 1000,
                "log_level": 0,
            }
        )
        self._worst_s = 0.0
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over:
            began = time.monotonic()
            self._producer.produce("honest", f"h{self.acked}".encode(), callback=self._answered)
            self._producer.flush(PATIENCE_S)
            self._worst_s = max(self._worst_s, time.monotonic() - began)
            time.sleep(0.02)

    def _answered(self, error: object, message: object) -> None:
        if error is None:
            self.acked += 1
        else:
            self.errors.append(str(error))

    def worst_s(self) -> float:
        """Of the answers since the last time."""
        worst_s, self._worst_s = self._worst_s, 0.0
        return worst_s

    def stop(self) -> None:
        self._is_over = True
        self._thread.join(PATIENCE_S)


def processes_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(found for child in children for found in processes_of(int(child)))]


def figures_of(pid: int) -> tuple[int, int]:
    """MiB in memory and descriptors, of all processes together."""
    pages, descriptors = 0, 0
    for one in processes_of(pid):
        pages += int(Path(f"/proc/{one}/statm").read_text().split()[1])
        descriptors += len(os.listdir(f"/proc/{one}/fd"))
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20, descriptors


def replicas_on_disk(record: Path) -> int:
    return sum(1 for _ in record.glob(".run-*/logs/b?/t*-*/*.log"))


class Observed:
    """The view of an admin client, and the time of each step."""

    def __init__(self, served: Served, producer: HonestProducer) -> None:
        from confluent_kafka.admin import AdminClient

        self.admin = AdminClient({"bootstrap.servers": served.bootstrap, "log_level": 0})
        self._served = served
        self._producer = producer
        self._began = time.monotonic()

    def partitions(self) -> list[Any]:
        topics = self.admin.list_topics(timeout=PATIENCE_S).topics.values()
        return [partition for topic in topics for partition in topic.partitions.values()]

    def until(self, condition: Callable[[list[Any]], bool]) -> None:
        wait_for(lambda: condition(self.partitions()), PATIENCE_S, pause_s=PAUSE_S)

    def until_answered(self) -> None:
        """A produce that begins now is answered."""
        before = self._producer.acked
        wait_for(lambda: self._producer.acked >= before + 2, PATIENCE_S)
        assert self._producer.errors == []

    def say(self, what: str) -> None:
        self.until_answered()
        memory, descriptors = figures_of(self._served.process.pid)
        took, self._began = time.monotonic() - self._began, time.monotonic()
        print(
            f"{what:<34} {took:6.1f} s   worst answer {self._producer.worst_s():5.2f} s   "
            f"{memory:5,} MiB   {descriptors:4} descriptors   load {os.getloadavg()[0]:.1f}"
        )


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    "words",
    [pytest.param((), id="one-process"), pytest.param(("--processes",), id="processes", marks=pytest.mark.night)],
)
def test_ten_thousand_partitions(tmp_path: Path, words: tuple[str, ...]) -> None:
    pytest.importorskip("confluent_kafka")
    from confluent_kafka.admin import NewTopic

    with serving(tmp_path, "--topic", "honest:1:3", "--max-partitions", str(COUNT + 1), *words) as served:
        producer = HonestProducer(served.bootstrap)
        seen = Observed(served, producer)
        seen.say("one partition")
        for first in range(0, COUNT, PER_REQUEST):
            wish = NewTopic(f"t{first}", min(PER_REQUEST, COUNT - first), 3)
            for made in seen.admin.create_topics([wish], request_timeout=PATIENCE_S).values():
                made.result(PATIENCE_S)
        seen.say(f"{COUNT:,} are created")
        (refused,) = seen.admin.create_topics([NewTopic("one-more", 1, 3)]).values()
        refusal = refused.exception(PATIENCE_S).args[0]
        assert refusal.name() == "POLICY_VIOLATION" and f"max.partitions={COUNT + 1}" in refusal.str()
        seen.until(lambda partitions: len(partitions) == COUNT + 1)
        seen.until(lambda partitions: all(one.leader > 0 and len(one.isrs) == 3 for one in partitions))
        wait_for(lambda: replicas_on_disk(tmp_path) == 3 * COUNT, PATIENCE_S, pause_s=PAUSE_S)
        seen.say("all have leaders, ISRs and logs")
        time.sleep(20)
        seen.say("20 s of idling")
        fault(served.record, "kill", "b2")
        seen.until(lambda partitions: all(one.leader in (1, 3) and 2 not in one.isrs for one in partitions))
        seen.say("b2 is killed, all have failed over")
        fault(served.record, "start", "b2")
        seen.until(lambda partitions: all(len(one.isrs) == 3 for one in partitions))
        seen.say("b2 is back in all ISRs")
        producer.stop()
        served.process.send_signal(signal.SIGINT)
        served.output, served.errors = served.process.communicate(timeout=PATIENCE_S)
        assert served.process.returncode == 0, served.errors
        assert f"NOTHING LOST of {producer.acked:,} acked records" in served.output
        assert producer.errors == []
