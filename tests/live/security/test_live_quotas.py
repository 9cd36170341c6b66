"""Quotas of real clients against a live cluster: librdkafka is told how long to wait, by the bytes that it has sent."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer
from live_cluster import LiveCluster, live_cluster

from cluster.protocol.cold import decode_response, encode_request, request
from cluster.protocol.framing import FrameReader
from cluster.protocol.versions import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from replica.errors import ErrorCode
from replica.trace.events import ClientQuotaAltered, ClientThrottled, RequestCompleted
from tests.waiting import wait_for

RATE = 200_000
"""Bytes a second. With two windows of a second one second of it may come at once."""
SETTINGS = ("cluster.config.quota.window.num=2",)
RECORD_BYTES, RECORDS = 10_000, 40
PATIENCE_S = 60


def ask(cluster: LiveCluster, api: int, **fields: Any) -> Any:

    frame = encode_request(api, 1, 1, "operator", request(api, 1, **fields))
    reader = FrameReader(1 << 20)
    with socket.create_connection(cluster.address("b1"), PATIENCE_S) as connection:
        connection.sendall(frame)
        while True:
            for answer in reader.feed(connection.recv(1 << 16)):
                return decode_response(api, 1, answer)


def set_quota(cluster: LiveCluster, client: str | None, key: str, value: float) -> None:
    entity = [{"entity_type": "client-id", "entity_name": client}]
    ops = [{"key": key, "value": value, "remove": False}]
    answer = ask(cluster, ALTER_CLIENT_QUOTAS, entries=[{"entity": entity, "ops": ops}], validate_only=False)
    assert [one.error_code for one in answer.entries] == [ErrorCode.NONE]


def quotas(cluster: LiveCluster) -> list[tuple[str | None, str, float]]:
    answer = ask(cluster, DESCRIBE_CLIENT_QUOTAS, components=[], strict=False)
    return [(one.entity[0].entity_name, value.key, value.value) for one in answer.entries for value in one.values]


def produced(cluster: LiveCluster) -> list[RequestCompleted]:
    return [event for event in cluster.events(RequestCompleted) if event.api == "Produce"]


def test_librdkafka_is_told_to_wait_and_every_record_arrives(tmp_path: Path) -> None:
    with live_cluster(tmp_path, "orders:1:1", settings=SETTINGS) as cluster:
        set_quota(cluster, "fast", "producer_byte_rate", RATE)
        wait_for(lambda: quotas(cluster) == [("fast", "producer_byte_rate", RATE)])
        assert len(cluster.events(ClientQuotaAltered)) == 1
        told_ms: list[int] = []
        made = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "client.id": "fast",
                "batch.num.messages": 1,
                "throttle_cb": lambda event: told_ms.append(round(event.throttle_time * 1000)),
            }
        )
        acked: list[bytes] = []
        for number in range(RECORDS):
            value = b"%d " % number + b"x" * RECORD_BYTES
            made.produce(
                "orders", value=value, partition=0, on_delivery=lambda error, message: acked.append(message.key())
            )
        assert made.flush(PATIENCE_S) == 0
        made.poll(0)
        assert len(acked) == RECORDS
        throttled = cluster.events(ClientThrottled)
        assert {(event.key, event.api) for event in throttled} == {("producer_byte_rate", "Produce")}
        # 400 kB are two seconds of the rate, and one of them was free. The client may be ahead of the trace.
        wait_for(lambda: sum(event.request_bytes for event in produced(cluster)) > RECORDS * RECORD_BYTES)
        assert sum(event.throttle_time_us for event in produced(cluster)) > 500_000
        assert [one for one in told_ms if one], "librdkafka has heard of it"


def test_another_client_is_not_slowed(tmp_path: Path) -> None:
    with live_cluster(tmp_path, "orders:1:1", settings=SETTINGS) as cluster:
        set_quota(cluster, "fast", "producer_byte_rate", 1000)
        made = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "other"})
        for _ in range(RECORDS):
            made.produce("orders", value=b"x" * RECORD_BYTES, partition=0)
        assert made.flush(PATIENCE_S) == 0
        assert cluster.events(ClientThrottled) == []


def test_kafka_python_is_told_to_wait_and_aiokafka_is_slowed(tmp_path: Path) -> None:
    """aiokafka looks at no throttle time: its connection is mute, and so it sends no faster than the others."""

    async def of_aiokafka(bootstrap: str) -> None:
        made = AIOKafkaProducer(bootstrap_servers=bootstrap, client_id="fast-aio", max_batch_size=RECORD_BYTES + 500)
        await made.start()
        sent = [await made.send("orders", b"x" * RECORD_BYTES, partition=0) for _ in range(RECORDS)]
        await asyncio.gather(*sent)
        await made.stop()

    with live_cluster(tmp_path, "orders:1:1", settings=SETTINGS) as cluster:
        for name in ("fast", "fast-aio"):
            set_quota(cluster, name, "producer_byte_rate", RATE)
        made = KafkaProducer(bootstrap_servers=cluster.bootstrap, client_id="fast", batch_size=RECORD_BYTES + 500)
        for _ in range(RECORDS):
            made.send("orders", b"x" * RECORD_BYTES, partition=0)
        made.flush(PATIENCE_S)
        told = [one["throttle-time-max"] for one in made.metrics().values() if "throttle-time-max" in one]
        made.close()
        assert max(told) > 0, told
        asyncio.run(of_aiokafka(cluster.bootstrap))
        throttled = {"client/fast", "client/fast-aio"}
        wait_for(lambda: {event.peer for event in cluster.events(ClientThrottled)} == throttled)
