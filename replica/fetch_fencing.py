"""The switch `fetch-fencing`: must a fetch and the answer to it belong to one leader epoch? (KIP-320, since 2.1)

`leader-epoch`: a follower names the epoch it follows in with all it asks, a leader refuses what belongs to another
epoch, and every new epoch makes a follower look for its place in the leader's log again. `none`: requests carry no
epoch, so a delayed request counts whenever it arrives, and a follower begins anew only when another broker leads:
neither follower nor leader notices that the leader was deposed and elected again in between. From 2.0.1 on
(KAFKA-7164, here part of `truncation: leader-epoch-exact`) the follower does, if it has missed an epoch.

source: Partition.makeFollower, checkCurrentLeaderEpoch (2.0 and 2.1); KAFKA-7395
"""

from __future__ import annotations

from replica.errors import ErrorCode, KafkaError
from replica.ids import NO_BROKER, UNDEFINED_EPOCH, BrokerId, LeaderEpoch
from replica.rules import Rules

BEFORE_KAFKA_7164 = ("high-watermark", "leader-epoch")
"""Values of `truncation` whose followers do not mind an epoch that they have missed."""


def current_leader_epoch(rules: Rules, leader_epoch: LeaderEpoch) -> LeaderEpoch:
    """The current_leader_epoch in a follower's requests; -1: none."""
    return UNDEFINED_EPOCH if rules.fetch_fencing == "none" else leader_epoch


def check_leader_epoch(rules: Rules, request_epoch: LeaderEpoch, local_epoch: LeaderEpoch) -> None:
    """Compare the leader epoch in a request (-1: not given) with ours. source: Partition.checkCurrentLeaderEpoch

    raises: KafkaError FENCED_LEADER_EPOCH (the sender is behind), UNKNOWN_LEADER_EPOCH (we are)
    """
    if rules.fetch_fencing == "none" or request_epoch in (UNDEFINED_EPOCH, local_epoch):
        return
    if request_epoch < local_epoch:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {request_epoch} is over, now it is {local_epoch}"
        )
    raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"leader epoch {request_epoch} is yet unknown, only {local_epoch}")


def answers(rules: Rules, requested_epoch: LeaderEpoch, leader_epoch: LeaderEpoch) -> bool:
    """Whether a follower in `leader_epoch` uses the answer to what it asked in `requested_epoch`."""
    return rules.fetch_fencing == "none" or requested_epoch == leader_epoch


def only_leader_serves(rules: Rules, old_client: bool) -> bool:
    """Whether a consumer's fetch is refused by a follower. Reading from followers (KIP-392, 2.4) rests on the epoch in
    the fetch: without it a consumer that still asks a deposed leader would never learn of the new one.

    old_client: it speaks a version of Fetch that knows nothing of such reads
    """
    return old_client or rules.fetch_fencing == "none"


def newest_epoch_taken(rules: Rules, leader_epoch: LeaderEpoch) -> LeaderEpoch | None:
    """Batches of a later epoch are not taken from an answer (KAFKA-18723); None: every batch is taken."""
    return None if rules.fetch_fencing == "none" else leader_epoch


def begins_anew(
    rules: Rules, followed: tuple[BrokerId, LeaderEpoch] | None, leader_id: BrokerId, leader_epoch: LeaderEpoch
) -> bool:
    """Whether a follower that learns of this leader looks for its place in the leader's log again.

    followed: the leader and epoch it follows now, itself after it has led, None after a start of the broker
    source: Partition.makeFollower. Until 2.1 a change to no leader at all changes nothing: ReplicaManager.makeFollowers
    then leaves the partition as it is. Until then the same leader in a later epoch changes nothing, either, unless an
    epoch in between was missed (KAFKA-7164, 2.0.1): in that one another leader may have cut this leader's log.
    """
    if rules.fetch_fencing != "none":
        return followed is None or followed[1] < leader_epoch
    if leader_id == NO_BROKER:
        return False
    if followed is None or followed[0] != leader_id:
        return True
    return rules.truncation not in BEFORE_KAFKA_7164 and leader_epoch > followed[1] + 1


def followers_serve_consumers(rules: Rules) -> bool:
    """KIP-392 (2.4) lets consumers read from followers, which is safe because their fetches carry the leader epoch. A
    broker of the time before it serves consumers only where it leads.
    """
    return rules.fetch_fencing != "none"
