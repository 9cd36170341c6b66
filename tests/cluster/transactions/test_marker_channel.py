"""Markers on their way to the leaders: by whom they go, when again, and what is heard of those without an answer."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from peers import Peers

from cluster.broker.metadata.follower import MetadataCache
from cluster.transactions.inputs import SendMarkers
from cluster.transactions.marker_channel import RETRY_US, MarkerChannels
from controller.image import BrokerRegistration, PartitionRegistration, TopicImage
from replica.config import TopicConfig
from replica.errors import ErrorCode
from replica.ids import TopicPartition

PARTITION = PartitionRegistration(replicas=(2, 3), in_sync_replicas=(2, 3), leader=2, leader_epoch=0, partition_epoch=0)
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
Heard = list[tuple[str, dict[TopicPartition, ErrorCode | None]]]


def broker(number: int, host: str) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id=number,
        incarnation_id="a",
        broker_epoch=1,
        registration_offset=1,
        rack=None,
        host=host,
        port=9092,
        fenced=False,
        in_controlled_shutdown=False,
    )


class Markers:
    """b2 leads t-0 and t-1, b3 t-2."""

    def __init__(self, says_version: bool = True) -> None:
        self.peers = Peers()
        self.cache = MetadataCache()
        image = self.cache.image
        image.brokers.update({2: broker(2, "b2"), 3: broker(3, "b3")})
        partitions = {0: PARTITION, 1: PARTITION, 2: replace(PARTITION, leader=3)}
        image.add_topic(
            "t", TopicImage(topic_id=UUID(int=1), config={}, log_config=TopicConfig(), partitions=partitions)
        )
        self.heard: Heard = []
        self._channels = MarkerChannels(
            node="b1",
            outbox=self.peers.outbox,
            cache=self.cache,
            request_timeout_us=30_000_000,
            says_version=says_version,
        )
        self._channels.on_answer = lambda given: self.heard.append((given.transactional_id, dict(given.errors)))

    def send(self, *names: TopicPartition, id: str = "x", producer: int = 5, again: bool = False) -> None:
        self._channels.send(
            SendMarkers(
                transactional_id=id,
                coordinator_epoch=4,
                producer_id=producer,
                producer_epoch=3,
                commit=True,
                partitions=names,
                again=again,
                version=2,
            ),
            0,
        )
        self.peers.listen()

    def lead(self, number: int, leader: int) -> None:
        self.cache.image.topics["t"].partitions[number] = replace(PARTITION, leader=leader)

    @property
    def asked(self) -> list[tuple[str, list[tuple[int, list[int]]]]]:
        """(host, [(producer id, partitions of t)])"""
        return [
            (host, [(int(one.producer_id), [*map(int, one.topics[0].partition_indexes)]) for one in asked.markers])
            for host, asked in self.peers.asked
        ]

    def answer(self, *errors: tuple[int, int, ErrorCode], request: int = -1) -> None:
        """errors: (producer id, partition of t, error)"""
        markers = [
            {
                "producer_id": producer,
                "topics": [{"name": "t", "partitions": [{"partition_index": number, "error_code": error}]}],
            }
            for producer, number, error in errors
        ]
        self.peers.answer(request=request, markers=markers)


@pytest.mark.parametrize(("says_version", "said"), [(True, 2), (False, 0)])
def test_a_marker_says_the_version_of_its_transaction_since_4_2(says_version: bool, said: int) -> None:
    """KIP-1228. The field is not in the request of earlier releases."""
    markers = Markers(says_version)
    markers.send(T0)
    ((_, asked),) = markers.peers.asked
    assert [int(getattr(marker, "transaction_version", 0)) for marker in asked.markers] == [said]


def test_each_leader_gets_its_own_and_what_comes_meanwhile_goes_together() -> None:
    markers = Markers()
    markers.send(T0, T2)
    markers.send(T1, id="y", producer=6)
    markers.send(T0, T1, id="z", producer=7)
    assert markers.asked == [("b2", [(5, [0])]), ("b3", [(5, [2])])]
    markers.answer((5, 0, ErrorCode.NONE), request=0)
    assert markers.asked[2:] == [("b2", [(6, [1]), (7, [0, 1])])]
    markers.answer((6, 1, ErrorCode.NONE), (7, 0, ErrorCode.NONE), (7, 1, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    markers.answer((5, 2, ErrorCode.NONE), request=1)
    assert len(markers.asked) == 3, "nothing is sent where nothing waits"
    assert markers.peers.outbox.timers.next_deadline_us is None
    assert markers.heard == [
        ("x", {T0: ErrorCode.NONE}),
        ("y", {T1: ErrorCode.NONE}),
        ("z", {T0: ErrorCode.NONE, T1: ErrorCode.NOT_LEADER_OR_FOLLOWER}),
        ("x", {T2: ErrorCode.NONE}),
    ]


def test_where_there_is_no_answer_the_leader_of_then_is_asked_again() -> None:
    markers = Markers()
    markers.send(T0)
    markers.peers.hang_up()
    markers.send(T0, T1)
    markers.answer((5, 0, ErrorCode.NONE))  # It says nothing of the other.
    assert markers.heard == [
        ("x", {T0: ErrorCode.REQUEST_TIMED_OUT}),
        ("x", {T0: ErrorCode.NONE, T1: ErrorCode.REQUEST_TIMED_OUT}),
    ]
    markers.lead(1, 3)
    markers.send(T1, again=True)
    markers.peers.run(RETRY_US - 1)
    assert len(markers.asked) == 2
    markers.peers.run(RETRY_US)
    assert markers.asked[2:] == [("b3", [(5, [1])])]


@pytest.mark.parametrize("leader", [-1, 4], ids=["nobody", "unknown"])
def test_a_partition_without_a_leader_waits_for_one(leader: int) -> None:
    markers = Markers()
    markers.lead(0, leader)
    markers.send(T0)
    markers.peers.run(RETRY_US)
    assert (markers.asked, markers.heard) == ([], [])
    markers.lead(0, 2)
    markers.peers.run(2 * RETRY_US)
    assert markers.asked == [("b2", [(5, [0])])]


def test_of_a_deleted_partition_is_heard_that_it_needs_none_after_the_step() -> None:
    markers = Markers()
    gone = TopicPartition("gone", 0)
    markers.send(gone, T0)
    assert (markers.asked, markers.heard) == ([("b2", [(5, [0])])], [])
    markers.peers.run(0)
    assert markers.heard == [("x", {gone: None})]
    markers.send(T0)
    assert len(markers.asked) == 1


def test_a_broker_that_is_back_at_another_address_gets_what_waits() -> None:
    markers = Markers()
    markers.send(T0)
    markers.send(T1, id="y", producer=6)
    markers.cache.image.brokers[2] = broker(2, "b2-moved")
    markers.send(T0, id="z", producer=7)
    assert markers.heard == [("x", {T0: ErrorCode.REQUEST_TIMED_OUT})]
    assert markers.peers.closed == ["b2"]
    assert sorted(one for host, asked in markers.asked if host == "b2-moved" for one in asked) == [(6, [1]), (7, [0])]
