"""Reads all partitions in the log directories of several brokers, and compares the replicas with the leader's.

reading = read(directories, topics=(), leader=None, rules=PROFILES[DEFAULT_PROFILE])
reading.partitions[0].replicas[0].log_end_offset
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from replica.ids import INTERNAL_TOPICS, METADATA_TOPIC, Offset, TopicPartition
from replica.rules import Rules
from scenarios.logdirs.comparison import LogComparison, compare
from scenarios.logdirs.directory import LogDirectory, open_directory
from scenarios.logdirs.files import LogDirectoryUnreadable, path_text
from scenarios.logdirs.replica_log import OnBatch, StoredReplica, read_replica
from scenarios.logdirs.returning import Return, on_return


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerReading:
    """A follower's replica, compared with the leader's.

    Attributes:
        comparison: the differences between both logs.
        returns: prediction of what the follower truncates when its broker returns.
    """

    replica: StoredReplica
    comparison: LogComparison
    returns: Return

    @property
    def cut_offsets(self) -> int:
        return max(0, self.replica.log_end_on_start - self.returns.log_end_offset)

    @property
    def cut_below_high_watermark(self) -> int:
        """The number of truncated offsets below the high watermark in the replica's checkpoint."""
        high_watermark = self.replica.high_watermark_on_start
        return max(0, min(high_watermark, self.replica.log_end_on_start) - self.returns.log_end_offset)

    @property
    def kept_apart(self) -> Offset | None:
        """The first differing offset that the follower does not truncate, so the logs stay different; None if none."""
        end = self.returns.log_end_offset
        differing = (difference for difference in self.comparison.differences if difference.replica.epochs is not None)
        return next((item.start for item in differing if item.start < end), None)

    @property
    def diverges(self) -> bool:
        """True if the two logs contradict each other. A follower that only lacks records does not diverge."""
        apart = self.comparison.parts_at is not None or self.kept_apart is not None
        return apart or self.returns.gives_up is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReading:
    """A partition with all its replicas.

    Attributes:
        is_assumed: True if the leader was chosen here: the replica with the newest epoch or, among those, with the
            longest log or, among those, with the highest high watermark.
        notes: sentences about anomalies.
    """

    topic_partition: TopicPartition
    replicas: tuple[StoredReplica, ...]
    leader: StoredReplica
    is_assumed: bool
    followers: tuple[FollowerReading, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    directories: tuple[LogDirectory, ...]
    partitions: tuple[PartitionReading, ...]
    notes: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """True if no replica is damaged and no follower diverges from its leader."""
        replicas = (replica for partition in self.partitions for replica in partition.replicas)
        followers = (follower for partition in self.partitions for follower in partition.followers)
        return not any(replica.is_damaged for replica in replicas) and not any(
            follower.diverges for follower in followers
        )


def open_all(paths: Sequence[Path]) -> list[LogDirectory]:
    """Open log directories, of which a broker may have several. Raises LogDirectoryUnreadable."""
    directories = [open_directory(path) for path in paths]
    seen: dict[tuple[str, TopicPartition], LogDirectory] = {}
    for directory in directories:
        for topic_partition in directory.partitions:
            earlier = seen.setdefault((directory.node, topic_partition), directory)
            if earlier is not directory:
                why = f"broker {directory.node} already has {topic_partition} in {path_text(earlier.path)}"
                raise LogDirectoryUnreadable(directory.path, why, "name each directory of each broker once")
    return directories


def read(
    directories: Sequence[LogDirectory],
    *,
    topics: Sequence[str],
    leader: str | None,
    rules: Rules,
    on_batch: OnBatch | None = None,
) -> Reading:
    """Read all replicas, and compare those of each partition.

    Args:
        topics: topics to read, empty for all.
        leader: node whose replicas are the leaders, None to choose the leaders (see PartitionReading).
        rules: rules of the era for the prediction of truncation.
        on_batch: called with each batch.

    Raises:
        LogDirectoryUnreadable: a directory or a file in it cannot be read.
    """
    every = {name for directory in directories for name in directory.partitions}
    names = sorted(every, key=lambda name: (name.topic in (*INTERNAL_TOPICS, METADATA_TOPIC), name))
    wanted = [name for name in names if not topics or name.topic in topics]
    return Reading(
        directories=tuple(directories),
        partitions=tuple(_partition(directories, name, leader, rules, on_batch) for name in wanted),
        notes=tuple(_notes(directories)),
    )


def _notes(directories: Sequence[LogDirectory]) -> Iterator[str]:
    clusters = sorted({directory.cluster_id for directory in directories if directory.cluster_id is not None})
    if len(clusters) > 1:
        yield f"the directories belong to different clusters: {', '.join(clusters)}"


def _partition(
    directories: Sequence[LogDirectory],
    name: TopicPartition,
    leader_node: str | None,
    rules: Rules,
    on_batch: OnBatch | None,
) -> PartitionReading:
    replicas = [
        read_replica(directory, name, directory.partitions[name], on_batch)
        for directory in directories
        if name in directory.partitions
    ]
    named = next((replica for replica in replicas if replica.node == leader_node), None)
    # Of two equal logs, the leader's has the higher high watermark, because a follower learns it later.
    leader = named or max(
        replicas, key=lambda replica: (replica.latest_epoch, replica.log_end_on_start, replica.high_watermark_on_start)
    )
    others = [replica for replica in replicas if replica is not leader]
    notes = []
    if leader_node is not None and named is None:
        notes.append(f"broker {leader_node} has no replica of this partition")
    if len({replica.files.topic_id for replica in replicas} - {None}) > 1:
        notes.append("the topic ids differ: these are not replicas of one topic")
    return PartitionReading(
        topic_partition=name,
        replicas=tuple(replicas),
        leader=leader,
        is_assumed=named is None,
        followers=tuple(
            FollowerReading(replica=other, comparison=compare(leader, other), returns=on_return(leader, other, rules))
            for other in others
        ),
        notes=tuple(notes),
    )
