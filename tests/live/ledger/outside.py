"""A client process that keeps its own books: records sent, acknowledged (with their offsets), and readable.

    python outside.py write LIBRARY BOOTSTRAP TOPIC PARTITIONS FILE     until its standard input ends
    python outside.py read LIBRARY BOOTSTRAP TOPIC PARTITIONS FILE      from the first offset to the last

It imports no module of Highwater. A line of FILE is JSON: `{"value", "partition", "offset", "acks", "fate"}` with the
fates `acked`, `handed-over` (acks=0), `failed` and `unknown`; when reading, `{"value", "partition", "offset"}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PRODUCERS = (("0", False), ("1", False), ("all", False), ("all", True))
"""(acks, idempotent)"""
RECORDS_PER_SECOND = 8
"""Of each producer."""
REQUEST_TIMEOUT_MS, DELIVERY_TIMEOUT_MS = 1500, 8000
"""Tight on purpose: answers come after the client has given up waiting, and it sends again."""
FLUSH_S = 20
READ_S = 60

Told = Callable[[str, int, int], None]


class Books:
    """The fate of each record, by its value; written when all is over."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[str, Any]] = {}

    def sent(self, value: str, partition: int, acks: str) -> Told:
        entry = {"value": value, "partition": partition, "offset": -1, "acks": acks, "fate": "unknown"}
        self.entries[value] = entry

        def told(fate: str, partition: int, offset: int) -> None:
            entry.update(fate=fate, partition=partition, offset=offset)

        return told

    def write(self, path: Path) -> None:
        path.write_text("".join(json.dumps(entry) + "\n" for entry in self.entries.values()), encoding="utf-8")


def name(library: str, acks: str, idempotent: bool) -> str:
    return f"{library[:2]}{acks[0]}{'i' if idempotent else ''}"


def has_ended() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0]) and not sys.stdin.read(1)


def ended_fate(acks: str) -> str:
    return "handed-over" if acks == "0" else "acked"


class Pace:
    """The producers that send their next record now."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._count = 0
        self._next_s = time.monotonic()

    def due(self) -> tuple[int, int] | None:
        """(number, partition) of the next record of every producer"""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return None
        self._next_s = max(self._next_s + 1 / RECORDS_PER_SECOND, now_s - 1)
        self._count += 1
        return self._count, self._count % self._partitions


# ------------------------------------------------------------------------------------------------------- librdkafka


def write_librdkafka(bootstrap: str, topic: str, partitions: int, books: Books) -> None:
    import confluent_kafka

    def producer(acks: str, idempotent: bool) -> Any:
        return confluent_kafka.Producer({
            "bootstrap.servers": bootstrap, "acks": acks, "enable.idempotence": idempotent, "linger.ms": 1,
            "client.id": f"ledger-{name('librdkafka', acks, idempotent)}", "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "socket.timeout.ms": REQUEST_TIMEOUT_MS, "message.timeout.ms": DELIVERY_TIMEOUT_MS, "log_level": 0,
        })  # fmt: skip

    producers = [(acks, idempotent, producer(acks, idempotent)) for acks, idempotent in PRODUCERS]
    pace = Pace(partitions)
    while not has_ended():
        due = pace.due()
        for acks, idempotent, one in producers:
            if due is not None:
                value = f"{name('librdkafka', acks, idempotent)}-{due[0]}"
                told = books.sent(value, due[1], acks)

                def answered(error: Any, message: Any, told: Told = told, acks: str = acks) -> None:
                    told(ended_fate(acks) if error is None else "failed", message.partition(), message.offset() or 0)

                one.produce(topic, value.encode(), partition=due[1], on_delivery=answered)
            one.poll(0)
        time.sleep(0.01)
    for _, _, one in producers:
        one.flush(FLUSH_S)


def read_librdkafka(bootstrap: str, topic: str, partitions: int, found: list[dict[str, Any]]) -> None:
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "ledger", "log_level": 0})
    numbers = [confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)]
    ends = {one.partition: consumer.get_watermark_offsets(one, timeout=READ_S)[1] for one in numbers}
    consumer.assign(numbers)
    until_s = time.monotonic() + READ_S
    while any(one.offset < ends[one.partition] for one in consumer.position(numbers)) and time.monotonic() < until_s:
        for message in consumer.consume(500, 0.5):
            assert message.error() is None, message.error()
            value = message.value().decode()
            found.append({"value": value, "partition": message.partition(), "offset": message.offset()})
        if not any(ends.values()):
            break
    consumer.close()


# ----------------------------------------------------------------------------------------------------- kafka-python


def write_kafka_python(bootstrap: str, topic: str, partitions: int, books: Books) -> None:
    import kafka
    from kafka.errors import KafkaError

    producers = [
        (acks, idempotent, kafka.KafkaProducer(
            bootstrap_servers=bootstrap, acks=acks if acks == "all" else int(acks), enable_idempotence=idempotent,
            client_id=f"ledger-{name('kafka-python', acks, idempotent)}", request_timeout_ms=REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS, max_block_ms=REQUEST_TIMEOUT_MS,
        ))
        for acks, idempotent in PRODUCERS
    ]  # fmt: skip
    pace = Pace(partitions)
    while not has_ended():
        due = pace.due()
        if due is None:
            time.sleep(0.01)
            continue
        for acks, idempotent, one in producers:
            value = f"{name('kafka-python', acks, idempotent)}-{due[0]}"
            told = books.sent(value, due[1], acks)
            try:
                future = one.send(topic, value=value.encode(), partition=due[1])
            except KafkaError:
                told("failed", due[1], -1)
                continue
            fate = ended_fate(acks)
            future.add_callback(lambda data, told=told, fate=fate: told(fate, data.partition, data.offset))
            future.add_errback(lambda error, told=told, partition=due[1]: told("failed", partition, -1))
    for _, _, one in producers:
        with contextlib.suppress(KafkaError):  # Each record has its own answer.
            one.flush(FLUSH_S)
            one.close(timeout=1)


def read_kafka_python(bootstrap: str, topic: str, partitions: int, found: list[dict[str, Any]]) -> None:
    import kafka

    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    numbers = [kafka.TopicPartition(topic, number) for number in range(partitions)]
    consumer.assign(numbers)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(numbers)
    until_s = time.monotonic() + READ_S
    while any(consumer.position(one) < ends[one] for one in numbers) and time.monotonic() < until_s:
        for records in consumer.poll(500).values():
            found.extend({"value": r.value.decode(), "partition": r.partition, "offset": r.offset} for r in records)
    consumer.close()


# --------------------------------------------------------------------------------------------------------- aiokafka


async def write_aiokafka(bootstrap: str, topic: str, partitions: int, books: Books) -> None:
    import aiokafka

    async def answered(future: Any, told: Told, acks: str, partition: int) -> None:
        try:
            data = await future
        except Exception:  # With any error of the library the record has no ack.
            told("failed", partition, -1)
        else:
            told(ended_fate(acks), partition, -1 if data is None else data.offset)

    async def accept(one: Any, value: str, acks: str, partition: int) -> None:
        told = books.sent(value, partition, acks)
        try:
            future = await asyncio.wait_for(one.send(topic, value.encode(), partition=partition), 1)
        except Exception:  # As above: it was not even taken.
            told("failed", partition, -1)
        else:
            waiting.append(asyncio.ensure_future(answered(future, told, acks, partition)))

    producers = []
    waiting: list[asyncio.Future[None]] = []
    for acks, idempotent in PRODUCERS:
        one = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks=acks if acks == "all" else int(acks), enable_idempotence=idempotent,
            client_id=f"ledger-{name('aiokafka', acks, idempotent)}", request_timeout_ms=REQUEST_TIMEOUT_MS,
        )  # fmt: skip
        await one.start()
        producers.append((acks, idempotent, one))
    pace = Pace(partitions)
    while not has_ended():
        due = pace.due()
        if due is not None:
            names = [f"{name('aiokafka', acks, idempotent)}-{due[0]}" for acks, idempotent, _ in producers]
            await asyncio.gather(
                *(accept(one, value, acks, due[1]) for value, (acks, _, one) in zip(names, producers, strict=True))
            )
        await asyncio.sleep(0.01)
    await asyncio.wait(waiting, timeout=FLUSH_S)
    for _, _, one in producers:
        await asyncio.wait([asyncio.ensure_future(one.stop())], timeout=2)


async def read_aiokafka(bootstrap: str, topic: str, partitions: int, found: list[dict[str, Any]]) -> None:
    import aiokafka

    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    numbers = [aiokafka.TopicPartition(topic, number) for number in range(partitions)]
    consumer.assign(numbers)
    await consumer.start()
    await consumer.seek_to_beginning()
    ends = await consumer.end_offsets(numbers)
    until_s = time.monotonic() + READ_S
    while time.monotonic() < until_s:
        if all([await consumer.position(one) >= ends[one] for one in numbers]):
            break
        for records in (await consumer.getmany(timeout_ms=500)).values():
            found.extend({"value": r.value.decode(), "partition": r.partition, "offset": r.offset} for r in records)
    await consumer.stop()


def main() -> None:
    task, library, bootstrap, topic, partitions, file = sys.argv[1:]
    arguments = (bootstrap, topic, int(partitions))
    if task == "write":
        books = Books()
        match library:
            case "librdkafka":
                write_librdkafka(*arguments, books)
            case "kafka-python":
                write_kafka_python(*arguments, books)
            case "aiokafka":
                asyncio.run(write_aiokafka(*arguments, books))
        books.write(Path(file))
        return
    found: list[dict[str, Any]] = []
    match library:
        case "librdkafka":
            read_librdkafka(*arguments, found)
        case "kafka-python":
            read_kafka_python(*arguments, found)
        case "aiokafka":
            asyncio.run(read_aiokafka(*arguments, found))
    Path(file).write_text("".join(json.dumps(record) + "\n" for record in found), encoding="utf-8")


if __name__ == "__main__":
    main()
