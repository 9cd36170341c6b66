"""A producer and a consumer (librdkafka) that go on while others attack the brokers, and how long they had to wait.

Run as a program: `honest_pair.py BOOTSTRAP TOPIC`. It stops at the end of its input, and prints a JSON object.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

PAUSE_S = 0.02
SLOW_S = 1.0


def main(bootstrap: str, topic: str) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    quiet = {"bootstrap.servers": bootstrap, "log_level": 0}
    producer = Producer({**quiet, "acks": "all", "linger.ms": 0, "enable.idempotence": True})
    consumer = Consumer({**quiet, "group.id": "honest", "enable.auto.commit": False, "fetch.wait.max.ms": 50})
    consumer.assign([TopicPartition(topic, 0, 0)])
    acks_s: list[float] = []
    reads_s: list[float] = []
    slow, failures, read = [], [], 0
    while not over.is_set() or not acks_s:
        began, told, value = time.monotonic(), [], str(read).encode()
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _, told=told: told.append(error))
        while not told:
            producer.poll(0.01)
        if told[0] is not None:
            failures.append(str(told[0]))
            continue
        acks_s.append(time.monotonic() - began)
        while (message := consumer.poll(1)) is None or message.error() is not None:
            pass
        assert message.value() == value, (message.value(), value)
        reads_s.append(time.monotonic() - began)
        read += 1
        if read == 1:  # The clients have done their first requests: connections, metadata, the producer id.
            acks_s, reads_s, started = [], [], time.monotonic()
            print("ready", flush=True)
        elif reads_s[-1] > SLOW_S:
            slow.append({"at_s": round(began - started, 1), "read_s": round(reads_s[-1], 2)})
        time.sleep(PAUSE_S)
    consumer.close()
    worst = {"ack_s": round(max(acks_s), 3), "read_s": round(max(reads_s), 3)}
    print(json.dumps({"records": read, **worst, "slow": slow, "failures": failures}))


@contextlib.contextmanager
def honest_pair(bootstrap: str, topic: str) -> Iterator[dict[str, Any]]:
    """The dictionary has their results afterwards."""
    words = [sys.executable, __file__, bootstrap, topic]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    seen: dict[str, Any] = {}
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield seen
        said, _ = process.communicate(timeout=60)
        seen.update(json.loads(said))
    finally:
        process.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
