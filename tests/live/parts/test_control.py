"""A node's reports to the process that runs the cluster, through the pair of sockets between them."""

from __future__ import annotations

import socket

import pytest

from cluster.live.control import PACKET_BYTES, BytesTold, ObservationTold, Told, ToldParts, control_pair, packets
from cluster.live.observations import FetchArrived
from cluster.network.passage import ByteCounts
from replica.ids import TopicPartition

SNDBUF_BYTES = 212_992
"""net.core.wmem_max, unless a system is set up otherwise: no socket gets more."""


@pytest.mark.soak
def test_a_client_decides_how_much_there_is_to_tell_and_all_of_it_arrives() -> None:
    """One Fetch may name any number of partitions; the packets of the pair have an end."""
    asked = tuple((TopicPartition("orders", number), number) for number in range(200_000))
    messages: list[Told] = [
        BytesTold(ByteCounts()),
        ObservationTold(7, 1, "client/c", FetchArrived(asked)),
        BytesTold(ByteCounts()),
    ]
    ours, theirs = control_pair()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SNDBUF_BYTES)
    with ours, theirs:
        buffer, parts = memoryview(bytearray(PACKET_BYTES)), ToldParts()
        heard: list[Told | None] = []
        for message in messages:
            for packet in packets(message):
                theirs.send(packet)
                heard.append(parts.take(buffer[: ours.recv_into(buffer)]))
    assert len(heard) > len(messages)
    assert [told for told in heard if told is not None] == messages
