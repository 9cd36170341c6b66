"""Clients of others behind one face: librdkafka, kafka-python and aiokafka, each as its own documentation uses it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka

PATIENCE_S = 30
SESSION_MS, HEARTBEAT_MS = 6000, 500


class Writer(Protocol):
    def send(self, topic: str, value: bytes, partition: int) -> None: ...

    def close(self) -> None:
        """Once every record has its answer. raises: if one of them was a refusal"""
        ...


class Reader(Protocol):
    """commit: the polled records"""

    def poll(self) -> list[bytes]: ...

    def parts(self) -> list[int]: ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


class Client(Protocol):
    def writer(self, bootstrap: str, acks: str, codec: str, *, idempotent: bool = False) -> Writer: ...

    def assigned(self, bootstrap: str, topic: str, partitions: list[int]) -> Reader: ...

    def grouped(self, bootstrap: str, topic: str, group: str) -> Reader: ...


# ------------------------------------------------------------------------------------------------------- librdkafka


class LibrdkafkaWriter:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = confluent_kafka.Producer({**settings, "linger.ms": 1})
        self._refused: list[str] = []

    def send(self, topic: str, value: bytes, partition: int) -> None:
        self._producer.produce(topic, value, partition=partition, on_delivery=self._told)
        self._producer.poll(0)

    def _told(self, error: Any, _: Any) -> None:
        if error is not None:
            self._refused.append(str(error))

    def close(self) -> None:
        left = self._producer.flush(PATIENCE_S)
        assert left == 0 and not self._refused, (left, self._refused[:3])


class LibrdkafkaReader:
    def __init__(self, bootstrap: str, group: str) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }
        self.consumer = confluent_kafka.Consumer(settings)

    def poll(self) -> list[bytes]:
        messages = self.consumer.consume(500, 0.1)
        return [message.value() for message in messages if message.error() is None]

    def parts(self) -> list[int]:
        return sorted(one.partition for one in self.consumer.assignment())

    def commit(self) -> None:
        self.consumer.commit(asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


class Librdkafka:
    def writer(self, bootstrap: str, acks: str, codec: str, *, idempotent: bool = False) -> Writer:
        settings = {"bootstrap.servers": bootstrap, "acks": acks, "compression.type": codec}
        return LibrdkafkaWriter({**settings, "enable.idempotence": idempotent})

    def assigned(self, bootstrap: str, topic: str, partitions: list[int]) -> Reader:
        reader = LibrdkafkaReader(bootstrap, "nobody")
        reader.consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in partitions])
        return reader

    def grouped(self, bootstrap: str, topic: str, group: str) -> Reader:
        reader = LibrdkafkaReader(bootstrap, group)
        reader.consumer.subscribe([topic])
        return reader


# ----------------------------------------------------------------------------------------------------- kafka-python


class KafkaPythonWriter:
    def __init__(self, **settings: Any) -> None:
        self._producer = kafka.KafkaProducer(**settings)
        self._sent: list[Any] = []

    def send(self, topic: str, value: bytes, partition: int) -> None:
        self._sent.append(self._producer.send(topic, value=value, partition=partition))

    def close(self) -> None:
        self._producer.flush(PATIENCE_S)
        for future in self._sent:
            future.get(PATIENCE_S)
        self._producer.close()


class KafkaPythonReader:
    def __init__(self, bootstrap: str, group: str | None) -> None:
        self.consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )

    def poll(self) -> list[bytes]:
        # A poll of kafka-python 3.0 that ends in the middle of joining a group may never come out of it again.
        return [record.value for part in self.consumer.poll(1000).values() for record in part]

    def parts(self) -> list[int]:
        return sorted(one.partition for one in self.consumer.assignment())

    def commit(self) -> None:
        self.consumer.commit()

    def close(self) -> None:
        self.consumer.close()


class KafkaPython:
    def writer(self, bootstrap: str, acks: str, codec: str, *, idempotent: bool = False) -> Writer:
        return KafkaPythonWriter(
            bootstrap_servers=bootstrap,
            acks=acks if acks == "all" else int(acks),
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
        )

    def assigned(self, bootstrap: str, topic: str, partitions: list[int]) -> Reader:
        reader = KafkaPythonReader(bootstrap, None)
        reader.consumer.assign([kafka.TopicPartition(topic, number) for number in partitions])
        return reader

    def grouped(self, bootstrap: str, topic: str, group: str) -> Reader:
        reader = KafkaPythonReader(bootstrap, group)
        reader.consumer.partitions_for_topic(topic)  # Else it may join before it knows the partitions to assign.
        reader.consumer.subscribe([topic])
        return reader


# --------------------------------------------------------------------------------------------------------- aiokafka


class Loop:
    """An event loop in a separate thread, so that this client, too, can be called."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_S)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


class AiokafkaWriter:
    def __init__(self, **settings: Any) -> None:
        self._loop = Loop()
        self._sent: list[Any] = []
        self._producer = self._loop.run(self._start(settings))

    async def _start(self, settings: dict[str, Any]) -> aiokafka.AIOKafkaProducer:
        producer = aiokafka.AIOKafkaProducer(**settings)
        await producer.start()
        return producer

    def send(self, topic: str, value: bytes, partition: int) -> None:
        self._sent.append(self._loop.run(self._producer.send(topic, value, partition=partition)))

    def close(self) -> None:
        self._loop.run(self._end())
        self._loop.stop()

    async def _end(self) -> None:
        await self._producer.flush()
        await asyncio.gather(*self._sent)
        await self._producer.stop()


class AiokafkaReader:
    def __init__(self, bootstrap: str, group: str | None, topic: str, partitions: list[int]) -> None:
        self._loop = Loop()
        self._consumer = self._loop.run(self._start(bootstrap, group, topic, partitions))

    async def _start(
        self, bootstrap: str, group: str | None, topic: str, partitions: list[int]
    ) -> aiokafka.AIOKafkaConsumer:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        if group is None:
            consumer.assign([aiokafka.TopicPartition(topic, number) for number in partitions])
        else:
            consumer.subscribe([topic])
        await consumer.start()
        return consumer

    def poll(self) -> list[bytes]:
        read = self._loop.run(self._consumer.getmany(timeout_ms=100))
        return [record.value for part in read.values() for record in part]

    def parts(self) -> list[int]:
        return sorted(one.partition for one in self._consumer.assignment())

    def commit(self) -> None:
        self._loop.run(self._consumer.commit())

    def close(self) -> None:
        self._loop.run(self._consumer.stop())
        self._loop.stop()


class Aiokafka:
    def writer(self, bootstrap: str, acks: str, codec: str, *, idempotent: bool = False) -> Writer:
        return AiokafkaWriter(
            bootstrap_servers=bootstrap,
            acks=acks if acks == "all" else int(acks),
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
        )

    def assigned(self, bootstrap: str, topic: str, partitions: list[int]) -> Reader:
        return AiokafkaReader(bootstrap, None, topic, partitions)

    def grouped(self, bootstrap: str, topic: str, group: str) -> Reader:
        return AiokafkaReader(bootstrap, group, topic, [])


CLIENTS: dict[str, Client] = {"librdkafka": Librdkafka(), "kafka-python": KafkaPython(), "aiokafka": Aiokafka()}
