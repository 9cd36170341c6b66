"""The records of KIP-848's groups, byte for byte as a broker of Kafka 4.1.0 wrote them, and what is read from them."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from uuid import UUID

import pytest
from coordinator_world import CoordinatorWorld

from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.consumer_records import (
    GroupEpochRecord,
    GroupTopicsRecord,
    PatternRecord,
    ResolvedPattern,
    encode,
    read_consumer_key,
    read_consumer_record,
)
from cluster.groups.state.topic_hash import group_hash, topic_hash, xxh3_64
from controller.image import BrokerRegistration

OF_KAFKA = {  # two consumers of librdkafka in group g: ^t.* and t1
    "member by a pattern": (
        "00050001670016716c6e484158752b53384b33764c5047704f6d4b4b77",
        "000000000363310b2f3132372e302e302e310107285e742e2a29000493e00001000100",
    ),
    "member": (
        "000500016700166c5263646266596d52324357745737397031732b7241",
        "000000000363320b2f3132372e302e302e310203743101000493e00001000100",
    ),
    "epoch without topics": ("0003000167", "00000000000100"),
    "epoch": ("0003000167", "00000000000301000807044f38371f94bc"),
    "target": (
        "000700016700166c5263646266596d52324357745737397031732b7241",
        "0000021de6f8a3dd864de7a8a408d566a016f40300000000000000010000",
    ),
    "target epoch": ("0006000167", "00000000000300"),
    "assignment": (
        "00080001670016716c6e484158752b53384b33764c5047704f6d4b4b77",
        "000000000002000000020102e5a43a64a7444dbd8902258e2a1dbcca0400000000000000010000000200021de6f8a3dd864de7a8a408d566"
        "a016f40300000000000000010000",
    ),
    "pattern": ("00100001670006285e742e2a29", "0000030374310374320000000000000038000001a2153e07f500"),
    "pattern that is gone": ("00100001670006285e742e2a29", None),
}


@pytest.mark.parametrize("what", OF_KAFKA)
def test_a_record_is_read_and_written_as_kafka_4_1_has_it(what: str) -> None:
    key, value = (None if one is None else bytes.fromhex(one) for one in OF_KAFKA[what])
    assert key is not None
    version, group_id, whose = read_consumer_key(key)
    record = read_consumer_record(version, whose, value)
    assert (group_id, encode(group_id, record)) == ("g", (key, value))


def test_what_such_records_say() -> None:
    def said(what: str) -> object:
        key, value = OF_KAFKA[what]
        version, _, whose = read_consumer_key(bytes.fromhex(str(key)))
        return read_consumer_record(version, whose, bytes.fromhex(str(value)))

    assert said("epoch without topics") == GroupEpochRecord(1, 0)
    assert said("epoch") == GroupEpochRecord(3, 505616161033917628)
    resolved = ResolvedPattern(("t1", "t2"), 56, 1_795_652_716_533)
    assert said("pattern") == PatternRecord("(^t.*)", resolved)


# ------------------------------------------------------------------------------------------------- the hash of topics

XXH3_OF_KAFKA = {  # hash4j 0.22.0, Hashing.xxh3_64(), of bytes 7 * i + 3
    **{4: 0x6D9253B16C8B1ED3, 5: 0x998620E10E3A4B37, 8: 0x60539DB630471163, 9: 0xFEFF668361D723A8},
    **{16: 0xB8C859B0F030B585, 17: 0x714A04408E79B80F, 32: 0x19FF4EE1D6BA1A55, 33: 0x3E44983AD21679C8},
    **{64: 0x287EB1FA9E4BE2C1, 65: 0x829218DE4D798646, 96: 0xF084E7CFBC624743, 97: 0x1DAA83271A8E7B7C},
    **{128: 0x67425A03650261BF, 129: 0xC664BF3311C6ABC4, 200: 0x746CD0025327BF5B, 240: 0x64556DC6B462A6CF},
    **{241: 0x8BEADD3A8874FE17, 256: 0x3C38817F6D79C0DA, 1023: 0xD26986A0B85DCC44, 1024: 0x9B81661C641C72B1},
    **{1025: 0x806C2072ED713576, 2048: 0xABE604813BA62ED1, 3000: 0xC89178BB873C6B3D},
}


@pytest.mark.parametrize("size", XXH3_OF_KAFKA)
def test_the_hash_is_that_of_kafkas_library(size: int) -> None:
    assert xxh3_64(bytes(7 * number + 3 & 255 for number in range(size))) == XXH3_OF_KAFKA[size]


def test_the_hash_of_a_groups_topics_is_that_of_kafka() -> None:
    """Of the broker of 4.1.0 above, with its topics' ids."""
    ids = (
        ("t1", "Heb4o92GTeeopAjVZqAW9A", 2),
        ("t2", "5aQ6ZKdETb2JAiWOKh28yg", 3),
        ("t3", "hvHb18TJSEeP9LWmkWgumg", 1),
    )
    hashes = [topic_hash(name, UUID(bytes=urlsafe_b64decode(f"{text}==")), ((),) * count) for name, text, count in ids]
    assert group_hash(hashes[:1]) == -1578410342227714855
    assert group_hash(hashes[:2]) == 505616161033917628
    assert group_hash(hashes) == 7288066405539054967
    assert group_hash(()) == 0


def test_racks_are_part_of_it() -> None:
    """hash4j 0.22.0, fed in the order of Utils.computeTopicHash"""
    assert topic_hash("té", UUID(int=1 << 64 | 2), (("r1",), ())) == 0xC7A8929156CA9787


# --------------------------------------------------------------------------------------------------------- the group


def group_of(world: CoordinatorWorld) -> ConsumerGroup:
    return world.coordinator.index.consumer_groups["g"]


def written(world: CoordinatorWorld, version: int) -> list[object]:
    """What the records with this version of the key say, in the order of the log."""
    keys = [(read_consumer_key(key), value) for _, key, value in world.log]
    return [read_consumer_record(found, whose, value) for (found, _, whose), value in keys if found == version]


def test_what_kafka_4_0_kept_of_the_topics_goes_with_the_first_heartbeat() -> None:
    world = CoordinatorWorld()
    world.elect()
    world.beat("m", 0)
    whole = [one for one in world.log if read_consumer_key(one[1])[0] != 3]
    old = [encode("g", record) for record in (GroupEpochRecord(1), GroupTopicsRecord(b"\0\0\1\0"))]
    world.log = [*whole, *((len(whole), key, value) for key, value in old)]
    world.resign()
    world.elect()
    assert (group_of(world).epoch, group_of(world).metadata_hash) == (1, 0)
    world.beat("m", 1)
    assert written(world, 4)[1:] == [GroupTopicsRecord(None)]
    assert written(world, 3)[1:] == [GroupEpochRecord(2, world.topics.hash_of(["t"]))]
    world.beat("m", 2)
    assert len(written(world, 4)) == 2


def test_a_broker_in_another_rack_is_a_new_epoch() -> None:
    world = CoordinatorWorld()
    world.elect()
    world.beat("m", 0)
    image = world.topics.cache.image
    image.brokers[1] = BrokerRegistration(
        broker_id=1,
        broker_epoch=1,
        incarnation_id="1",
        registration_offset=1,
        host="b1",
        port=1,
        rack="r",
        fenced=False,
        in_controlled_shutdown=False,
    )
    world.beat("m", 1)
    assert [record.epoch for record in written(world, 3) if isinstance(record, GroupEpochRecord)] == [1, 2]


def test_patterns_are_looked_up_again_from_time_to_time() -> None:
    world = CoordinatorWorld(consumer_session_timeout_ms=3_600_000)
    world.elect()
    world.beat("m", 0, pattern="t")
    world.at(0)
    world.beat("m", 1)
    for seconds in (10, 300, 600, 601, 602):
        world.at(seconds * 1_000_000)
        world.beat("m", 2)
        world.at(seconds * 1_000_000)
    looked_up = [
        one.resolved.resolved_ms for one in written(world, 16) if isinstance(one, PatternRecord) and one.resolved
    ]
    first_ms = looked_up[0]
    assert [one - first_ms for one in looked_up] == [0, 601_000]
    assert group_of(world).epoch == 2, "it found the same topics"


def test_a_pattern_that_could_not_be_kept_is_looked_up_with_the_next_heartbeat() -> None:
    world = CoordinatorWorld()
    world.elect()
    world.beat("m", 0, pattern="t")
    world.hold()
    world.at(0)
    world.release("NOT_ENOUGH_REPLICAS")
    assert group_of(world).resolved == {}
    world.beat("m", 1)
    world.at(0)
    assert group_of(world).resolved["t"].topics == ("t",)


def test_a_member_that_changes_its_pattern_takes_the_old_one_along() -> None:
    world = CoordinatorWorld()
    world.make_topic("u", 1)
    world.elect()
    world.beat("m", 0, pattern="t")
    world.at(0)
    world.beat("m", 1, pattern="u")
    assert not group_of(world).resolved and not group_of(world).reads("t")
    world.at(0)
    assert not group_of(world).resolved, "the last look is too fresh"
    world.beat("m", 3)
    world.at(0)
    assert list(group_of(world).resolved) == ["u"] and group_of(world).reads("u")
    assert world.delete_offsets("u-0", "t-0") == ["delete-offsets <- u-0 GROUP_SUBSCRIBED_TO_TOPIC, t-0 NONE"]
