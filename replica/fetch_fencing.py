"""The switch `fetch-fencing`: whether a fetch must have the leader epoch of the leader (KIP-320, since 2.1).

* `leader-epoch`: a follower's request has its leader epoch, and a leader refuses requests with another epoch. In every
  new epoch, a follower compares its log with the leader's again.
* `none`: requests have no epoch, so a delayed request is valid whenever it arrives. A follower compares logs only when
  another broker becomes leader, so it does not notice a leader that was deposed and elected again. From 2.0.1 on
  (KAFKA-7164, here part of `truncation: leader-epoch-exact`), a follower that missed an epoch also compares logs.

Source: Partition.makeFollower, checkCurrentLeaderEpoch (2.0 and 2.1); KAFKA-7395
"""

from __future__ import annotations

from replica.errors import ErrorCode, KafkaError
from replica.ids import NO_BROKER, UNDEFINED_EPOCH, BrokerId, LeaderEpoch
from replica.rules import Rules

BEFORE_KAFKA_7164 = ("high-watermark", "leader-epoch")
"""Values of `truncation` with which a follower ignores a missed epoch."""


def current_leader_epoch(rules: Rules, leader_epoch: LeaderEpoch) -> LeaderEpoch:
    """Return the leader epoch that a follower puts into its requests, -1 for none."""
    return UNDEFINED_EPOCH if rules.fetch_fencing == "none" else leader_epoch


def check_leader_epoch(rules: Rules, request_epoch: LeaderEpoch, local_epoch: LeaderEpoch) -> None:
    """Check that a request has the leader epoch of this broker, or -1.

    Raises:
        KafkaError: FENCED_LEADER_EPOCH if the request's epoch is earlier, UNKNOWN_LEADER_EPOCH if it is later.

    Source: Partition.checkCurrentLeaderEpoch
    """
    if rules.fetch_fencing == "none" or request_epoch in (UNDEFINED_EPOCH, local_epoch):
        return
    if request_epoch < local_epoch:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"leader epoch {request_epoch} is older than the current leader epoch {local_epoch}",
        )
    raise KafkaError(
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        f"leader epoch {request_epoch} is newer than the known leader epoch {local_epoch}",
    )


def answers(rules: Rules, requested_epoch: LeaderEpoch, leader_epoch: LeaderEpoch) -> bool:
    """Return True if a follower in `leader_epoch` may use the response to a request from `requested_epoch`."""
    return rules.fetch_fencing == "none" or requested_epoch == leader_epoch


def only_leader_serves(rules: Rules, old_client: bool) -> bool:
    """Return True if a follower refuses a consumer's fetch.

    Reading from followers (KIP-392, 2.4) relies on the leader epoch in the fetch. Without the epoch, a consumer that
    still reads from a deposed leader would never learn of the new leader.

    Args:
        old_client: True if the client's version of Fetch does not support reading from followers.
    """
    return old_client or rules.fetch_fencing == "none"


def newest_epoch_taken(rules: Rules, leader_epoch: LeaderEpoch) -> LeaderEpoch | None:
    """Return the latest epoch whose batches a follower accepts in a response (KAFKA-18723), None for no limit."""
    return None if rules.fetch_fencing == "none" else leader_epoch


def begins_anew(
    rules: Rules, followed: tuple[BrokerId, LeaderEpoch] | None, leader_id: BrokerId, leader_epoch: LeaderEpoch
) -> bool:
    """Return True if a follower that is assigned this leader must compare its log with the leader's again.

    Before 2.1, the answer is False if the partition has lost its leader, because ReplicaManager.makeFollowers ignores
    it. The answer is also False for the same leader in a later epoch, unless the follower missed an epoch (KAFKA-7164,
    2.0.1): in the missed epoch, another leader may have truncated the log of this leader.

    Args:
        followed: previous leader, which may be this broker, and its epoch; None after a start.

    Source: Partition.makeFollower
    """
    if rules.fetch_fencing != "none":
        return followed is None or followed[1] < leader_epoch
    if leader_id == NO_BROKER:
        return False
    if followed is None or followed[0] != leader_id:
        return True
    return rules.truncation not in BEFORE_KAFKA_7164 and leader_epoch > followed[1] + 1


def followers_serve_consumers(rules: Rules) -> bool:
    """Return True if consumers may read from followers (KIP-392, 2.4), which needs a leader epoch in the fetch."""
    return rules.fetch_fencing != "none"
