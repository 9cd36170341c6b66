"""The leader's choice of the replica from which a consumer should read (KIP-392).

The choice is that of RackAwareReplicaSelector, the only selector here:

1. the leader, if it is in the consumer's rack;
2. otherwise the most caught-up replica in this rack that has the consumer's offset;
3. otherwise the leader.

Source: ReplicaManager.findPreferredReadReplica, RackAwareReplicaSelector, ReplicaView.comparator
"""

from __future__ import annotations

from collections.abc import Collection

from replica.ids import NO_BROKER, BrokerId, Offset
from replica.isr import RemoteReplica
from replica.leader import LeaderState
from replica.rules import Rules


def preferred_read_replica(
    leader: LeaderState, in_rack: Collection[BrokerId], fetch_offset: Offset, rules: Rules
) -> BrokerId:
    """Return the broker that a consumer should read from, NO_BROKER for the leader itself.

    Args:
        in_rack: the unfenced brokers in the consumer's rack.
        fetch_offset: the consumer's position, which the replica must have.
    """
    if leader.broker_id in in_rack:
        return NO_BROKER
    candidates = [
        broker_id
        for broker_id, replica in leader.replicas.items()
        if broker_id in in_rack
        and replica.log_start_offset <= fetch_offset <= replica.log_end_offset
        # Before KAFKA-14372, a replica that stays behind could be chosen again and again.
        and (rules.read_replica == "any" or broker_id in leader.in_sync_replicas)
    ]
    return max(candidates, key=lambda broker_id: (*_progress(leader.replicas[broker_id]), broker_id), default=NO_BROKER)


def _progress(replica: RemoteReplica) -> tuple[Offset, int]:
    return replica.log_end_offset, replica.last_caught_up_us // 1000
