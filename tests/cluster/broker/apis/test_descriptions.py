"""The cluster and its topics, as clients see them: DescribeCluster, DescribeTopicPartitions, Metadata."""

from admin_requests import create, error, topic, topics_of
from broker_world import B1, B2, B3

from cluster.protocol.versions import (
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC_PARTITIONS,
    METADATA,
)
from replica.errors import ErrorCode


def test_the_cluster_is_described(world, admin):
    answer = admin.ask(DESCRIBE_CLUSTER, 2, include_cluster_authorized_operations=True, endpoint_type=1)
    assert [(one.broker_id, one.is_fenced) for one in answer.brokers] == [(B1, False), (B2, False)]
    assert (answer.controller_id, int(answer.cluster_authorized_operations)) == (B1, 8096)
    for endpoint, refusal in ((2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)):
        answer = admin.ask(DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=False, endpoint_type=endpoint)
        assert error(answer) is refusal
    world.fall_silent(B2)
    answer = admin.ask(DESCRIBE_CLUSTER, 2, include_fenced_brokers=True, endpoint_type=1)
    assert [(one.broker_id, one.is_fenced) for one in answer.brokers] == [(B1, False), (B2, True)]


def test_partitions_are_described_page_by_page(admin):
    create(admin, topic("t", 3), topic("u", 2))
    seen, cursor = [], None
    while True:
        answer = admin.ask(DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=2, cursor=cursor)
        seen.append([(told.name, one.partition_index) for told in answer.topics for one in told.partitions])
        if answer.next_cursor is None:
            break
        cursor = {"topic_name": answer.next_cursor.topic_name, "partition_index": answer.next_cursor.partition_index}
    assert seen == [[("t", 0), ("t", 1)], [("t", 2), ("u", 0)], [("u", 1)]]


def test_a_partition_that_nobody_leads_is_described_without_an_error(world, admin):
    """Clients see the leader -1."""
    create(admin, topic("t", -1, -1, assignments=[{"partition_index": 0, "broker_ids": [B2]}]))
    world.fall_silent(B2)
    (told,) = admin.ask(DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": "t"}], cursor=None).topics
    assert [(error(one), one.leader_id, list(one.offline_replicas)) for one in told.partitions] == [
        (ErrorCode.NONE, -1, [B2])
    ]


def test_a_topic_that_a_client_asks_about_is_created(world, admin):
    def ask(name, allow=True, version=9):
        answer = admin.ask(METADATA, version, topics=[{"name": name}], allow_auto_topic_creation=allow)
        return error(answer.topics[0])

    assert ask("t", allow=False) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask("t", allow=False) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask("t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask("t") is ErrorCode.NONE
    assert ask("a/b") is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert ask("__consumer_offsets") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.join(B3)
    assert ask("__consumer_offsets") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(topics_of(admin)["__consumer_offsets"].partitions) == 50
    assert ask("old", version=1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask("old", version=1) is ErrorCode.NONE


def test_what_everybody_may_do_is_told_to_those_who_ask(admin):
    create(admin, topic("t"))

    def told(**asked):
        answer = admin.ask(METADATA, 8, topics=None, **asked)
        return int(answer.cluster_authorized_operations), int(answer.topics[0].topic_authorized_operations)

    assert told() == (-(2**31), -(2**31))
    assert told(include_cluster_authorized_operations=True, include_topic_authorized_operations=True) == (8096, 3576)
