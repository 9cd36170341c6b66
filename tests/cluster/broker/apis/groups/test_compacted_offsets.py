"""The offsets topic is compacted: it stays small, and a coordinator that loads it knows all that counts."""

from __future__ import annotations

from pathlib import Path

from broker_world import B1, B2, BrokerWorld
from group_world import Consumer

from replica.ids import OFFSETS_TOPIC, TopicPartition
from replica.rules import PROFILES
from replica.trace.events import GroupsLoaded, LogCompacted

LOG = TopicPartition(OFFSETS_TOPIC, 0)
COMMITS = 200


def small_offsets_topic(root: Path, **config: str) -> BrokerWorld:
    """Its segments hold some commits, and the cleaner looks at it every second."""
    world = BrokerWorld(root, PROFILES["kafka-3.9"], log_cleaner_backoff_ms="1000", **config).start()
    world.run(100)
    world.join(B2)
    world.create(B1)
    world.create(B1, topic=OFFSETS_TOPIC, cleanup_policy="compact", segment_bytes="1024")
    world.run(10)
    return world


def size_of(world: BrokerWorld) -> int:
    return world.broker.replicas.partitions[LOG].log.size_bytes


def test_it_no_longer_grows_and_the_last_commit_is_found_again(tmp_path: Path) -> None:
    world = small_offsets_topic(tmp_path)
    tool = Consumer(world, "tool")
    sizes = []
    for number in range(COMMITS):
        tool.commit(number)
        world.run(100)
        sizes.append(size_of(world))
    assert len(world.events(LogCompacted)) > 5
    assert max(sizes) < 6 * 1024
    world.kill()
    world.start()
    world.run(20_000)
    loaded = world.events(GroupsLoaded)[-1]
    assert (loaded.groups, loaded.offsets) == (1, 1)
    assert Consumer(world, "tool").committed() == (COMMITS - 1, 0)


def test_offsets_that_have_expired_stay_gone_when_their_tombstones_are(tmp_path: Path) -> None:
    world = small_offsets_topic(
        tmp_path,
        offsets_retention_minutes="1",
        offsets_retention_check_interval_ms="1000",
        log_cleaner_delete_retention_ms="1000",
    )
    old = Consumer(world, "tool", group="old")
    old.commit(7)
    world.run(70_000)
    assert old.committed() == (-1, 0)
    other = Consumer(world, "tool", group="new")
    for number in range(60):
        other.commit(number)
        world.run(200)
    log = world.broker.replicas.partitions[LOG].log
    assert [record.offset for _, record in log.records() if record.key and b"old" in record.key] == []
    world.kill()
    world.start()
    world.run(20_000)
    assert Consumer(world, "tool", group="old").committed() == (-1, 0)
    assert Consumer(world, "tool", group="new").committed() == (59, 0)
