"""What a client may do, API by API: the operation it needs, and what it is told without it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from acl_world import BOB, CAROL, AclWorld, rule
from broker_world import B1, B2, batch
from sasl_world import ALICE

from cluster.authorization.authorizer import Client
from cluster.authorization.guard import Passed, listed
from cluster.authorization.guards import GUARDS, verdict_of
from cluster.broker.api_table import APIS, serve_of
from cluster.broker.apis.refusals import Refused
from cluster.protocol import cold
from cluster.protocol import versions as v
from cluster.protocol.versions import FORWARDED, RequestHeader, api_name
from cluster.request_faults import RequestFault
from controller.access import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from replica.errors import ErrorCode
from replica.trace import events as trace

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
NO_TOPIC, NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER, NO_ID = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NONE = ErrorCode.NONE
OF_NOBODY = {v.API_VERSIONS, v.SASL_HANDSHAKE, v.SASL_AUTHENTICATE}
OF_ITSELF = {v.PRODUCE, v.FETCH}


def on_cluster(user, operation):
    return rule(user, operation, CLUSTER, CLUSTER_NAME)


@pytest.fixture
def world(tmp_path):
    factors = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
    world = AclWorld(tmp_path, **dict.fromkeys(factors, "1"))
    world.create(B1)
    world.create(B1, topic="u")
    return world


@pytest.fixture
def bob(world):
    return world.user(BOB)


def test_every_api_that_does_something_for_clients_has_a_guard():
    unguarded = {key for key in APIS if key not in GUARDS}
    served = {key for key in unguarded if not isinstance(serve_of(key), Refused)}
    assert {api_name(key) for key in served - OF_NOBODY - OF_ITSELF} == set()
    assert set(FORWARDED) <= set(GUARDS)


def produce(client, topic="t", transactional_id=None):
    client.caller.produce(batch("a"), topic=topic)
    client.world.run(50)
    return client.caller.produced().error


def fetch(client, **options):
    client.caller.fetch(0, max_wait_ms=0, **options)
    client.world.run(50)
    return client.caller.fetched().error


def test_records_are_written_and_read_by_who_may(world, bob):
    alice = world.user(ALICE)
    assert (produce(alice), fetch(alice)) == (NONE, NONE), "a super user needs no rule"
    assert (produce(bob), fetch(bob)) == (NO_TOPIC, NO_TOPIC)
    world.allow(rule(BOB, Operation.WRITE))
    assert (produce(bob), fetch(bob)) == (NONE, NO_TOPIC)
    world.allow(rule(BOB, Operation.READ))
    assert (produce(bob), fetch(bob)) == (NONE, NONE)
    assert produce(world.user(CAROL)) == NO_TOPIC
    world.allow(rule("*", Operation.ALL, permission=Permission.DENY))
    assert (produce(bob), fetch(bob), produce(alice)) == (NO_TOPIC, NO_TOPIC, NONE)


def test_a_client_that_calls_itself_a_follower_needs_more_than_to_read(world, bob):
    world.allow(rule(BOB, Operation.READ))
    assert fetch(bob, replica_id=2) == NO_TOPIC
    world.allow(on_cluster(BOB, Operation.CLUSTER_ACTION))
    assert fetch(bob, replica_id=2) != NO_TOPIC


def test_a_fault_without_an_error_lets_nobody_in(world, bob):
    slow = RequestFault(fault="fail-1", api=v.FETCH, brokers=("b1",), spared=(), delay_us=1000, rounds=None)
    world.faults.rules[:] = [slow]
    assert fetch(bob) == NO_TOPIC


def test_rules_of_a_host_hold_for_that_host(world, bob):
    world.allow(rule(BOB, Operation.WRITE, host="10.0.0.1"))
    assert produce(bob) == NO_TOPIC
    world.allow(rule(BOB, Operation.WRITE, host="127.0.0.1"))
    assert produce(bob) == NONE


def shown(client, topics=None, **more):
    answer = client.ask(v.METADATA, 12, topics=topics, **more)
    return {topic.name: topic.error_code for topic in answer.topics}


def test_metadata_has_the_topics_that_may_be_described(world, bob):
    assert shown(bob) == {}
    assert shown(bob, [{"name": "t"}]) == {"t": NO_TOPIC}
    world.allow(rule(BOB, Operation.READ))
    assert shown(bob) == {"t": NONE}
    assert shown(bob, [{"name": "t"}, {"name": "u"}]) == {"t": NONE, "u": NO_TOPIC}
    by_id = bob.ask(v.METADATA, 12, topics=[{"topic_id": world.topic_id("u"), "name": None}]).topics[0]
    assert (by_id.name, by_id.error_code) == (None, NO_TOPIC)
    old = bob.ask(v.METADATA, 0, topics=[{"name": "u"}]).topics
    assert [(topic.name, topic.error_code) for topic in old] == [("u", NO_TOPIC)], "all were refused, not none named"


def test_a_topic_is_made_only_for_who_may_create_it(world, bob):
    world.allow(rule(BOB, Operation.DESCRIBE, name="new"))
    assert shown(bob, [{"name": "new"}], allow_auto_topic_creation=False) == {
        "new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    assert shown(bob, [{"name": "new"}], allow_auto_topic_creation=True) == {"new": NO_TOPIC}
    world.allow(rule(BOB, Operation.CREATE, name="ne", pattern=PatternType.PREFIXED))
    shown(bob, [{"name": "new"}], allow_auto_topic_creation=True)
    world.run(500)
    assert shown(bob, [{"name": "new"}]) == {"new": NONE}


def test_operations_that_are_allowed_are_told_where_asked_for(world, bob):
    world.allow(rule(BOB, Operation.WRITE))
    topic = bob.ask(v.METADATA, 10, topics=[{"name": "t"}], include_topic_authorized_operations=True)
    assert int(topic.topics[0].topic_authorized_operations) == 1 << Operation.WRITE | 1 << Operation.DESCRIBE
    assert int(topic.cluster_authorized_operations) == -(2**31)
    wants = {"include_cluster_authorized_operations": True}
    assert int(bob.ask(v.DESCRIBE_CLUSTER, 0, **wants).cluster_authorized_operations) == 0
    world.allow(on_cluster(BOB, Operation.ALTER))
    told = int(bob.ask(v.DESCRIBE_CLUSTER, 0, **wants).cluster_authorized_operations)
    assert told == 1 << Operation.ALTER | 1 << Operation.DESCRIBE
    page = bob.ask(v.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=10, cursor=None).topics
    assert [(one.name, int(one.topic_authorized_operations)) for one in page] == [("t", 272)]


def test_pages_of_partitions_name_no_topic_that_may_not_be_described(world, bob):
    def page(topics=(), cursor=None):
        return bob.ask(
            v.DESCRIBE_TOPIC_PARTITIONS,
            0,
            topics=[{"name": name} for name in topics],
            response_partition_limit=1,
            cursor=cursor,
        )

    assert page().topics == ()
    world.allow(rule(BOB, Operation.DESCRIBE, name="u"))
    assert [one.name for one in page().topics] == ["u"]
    assert [one.name for one in page(cursor={"topic_name": "t", "partition_index": 0}).topics] == ["u"]
    assert [(one.name, one.error_code) for one in page(["t", "u"]).topics] == [("u", NONE), ("t", NO_TOPIC)]


def offsets(client, *topics):
    asked = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in topics]
    answer = client.ask(v.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=asked)
    return {topic.name: topic.partitions[0].error_code for topic in answer.topics}


def test_of_a_request_about_partitions_what_is_allowed_is_done(world, bob):
    world.allow(rule(BOB, Operation.DESCRIBE))
    assert offsets(bob, "t", "u") == {"t": NONE, "u": NO_TOPIC}
    records = [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in "tu"]
    deleted = bob.ask(v.DELETE_RECORDS, 2, topics=records, timeout=1000)
    assert [topic.partitions[0].error_code for topic in deleted.topics] == [NO_TOPIC, NO_TOPIC]
    epochs = [{"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]} for name in "tu"]
    ends = bob.ask(v.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=epochs)
    assert {one.topic: one.partitions[0].error_code for one in ends.topics} == {"t": NONE, "u": NO_TOPIC}
    producers = [{"name": name, "partition_indexes": [0]} for name in "tu"]
    found = bob.ask(v.DESCRIBE_PRODUCERS, 0, topics=producers)
    assert [topic.partitions[0].error_code for topic in found.topics] == [NO_TOPIC, NO_TOPIC]


# ------------------------------------------------------------------------------------------------------------ groups


def commit(client, *topics, group="g"):
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    asked = [{"name": name, "partitions": [partition]} for name in topics]
    values = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": asked}
    answer = client.ask(v.OFFSET_COMMIT, 8, **values)
    return {topic.name: topic.partitions[0].error_code for topic in answer.topics}


def committed(client, *topics, version=9, group="g"):
    named = [{"name": name, "partition_indexes": [0]} for name in topics] if topics else None
    if version < 8:
        answer = client.ask(v.OFFSET_FETCH, version, group_id=group, topics=named, require_stable=False)
    else:
        asked = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": named}]
        (answer,) = client.ask(v.OFFSET_FETCH, version, groups=asked, require_stable=False).groups
    found = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    return answer.error_code if answer.error_code else found


@pytest.fixture
def coordinating(world):
    """The broker coordinates all groups."""
    world.user(ALICE).ask(v.FIND_COORDINATOR, 3, key="g", key_type=0)
    world.run(1000)
    return world


def test_offsets_are_committed_and_fetched_by_who_may_read_the_group_and_its_topics(coordinating, bob):
    world = coordinating
    assert commit(bob, "t") == {"t": NO_GROUP}
    world.allow(rule(BOB, Operation.READ, GROUP, "g"))
    assert commit(bob, "t") == {"t": NO_TOPIC}
    world.allow(rule(BOB, Operation.READ))
    assert commit(bob, "t", "u") == {"t": NONE, "u": NO_TOPIC}
    assert commit(world.user(ALICE), "u") == {"u": NONE}
    for version in (7, 9):
        assert committed(bob, "t", "u", version=version) == {"t": NONE, "u": NO_TOPIC}
        assert committed(bob, version=version) == {"t": NONE}
        assert committed(bob, "t", group="other", version=version) == NO_GROUP


def test_a_group_is_seen_joined_and_deleted_by_who_may(coordinating, bob):
    world = coordinating
    commit(world.user(ALICE), "t")
    join = {"group_id": "g", "session_timeout": 6000, "rebalance_timeout": 6000, "member_id": ""}
    wants = {**join, "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
    assert bob.ask(v.JOIN_GROUP, 5, **wants).error_code is NO_GROUP
    assert bob.ask(v.HEARTBEAT, 3, group_id="g", generation_id=1, member_id="m").error_code is NO_GROUP
    assert bob.ask(v.LEAVE_GROUP, 3, group_id="g", members=[{"member_id": "m"}]).error_code is NO_GROUP
    assert [one.error_code for one in bob.ask(v.DESCRIBE_GROUPS, 5, groups=["g"]).groups] == [NO_GROUP]
    assert bob.ask(v.LIST_GROUPS, 4).groups == ()
    assert [one.error_code for one in bob.ask(v.DELETE_GROUPS, 2, groups_names=["g"]).results] == [NO_GROUP]
    assert bob.ask(v.FIND_COORDINATOR, 3, key="g", key_type=0).error_code is NO_GROUP
    (found,) = bob.ask(v.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"]).coordinators
    assert (found.error_code, int(found.node_id)) == (NO_GROUP, -1)
    world.allow(rule(BOB, Operation.DESCRIBE, GROUP, "g"))
    (described,) = bob.ask(v.DESCRIBE_GROUPS, 5, groups=["g"], include_authorized_operations=True).groups
    assert (described.error_code, int(described.authorized_operations)) == (NONE, 1 << Operation.DESCRIBE)
    assert [one.group_id for one in bob.ask(v.LIST_GROUPS, 4).groups] == ["g"]
    world.allow(rule(BOB, Operation.DELETE, GROUP, "*"))
    assert [one.error_code for one in bob.ask(v.DELETE_GROUPS, 2, groups_names=["g"]).results] == [NONE]


def test_a_member_of_the_new_protocol_may_subscribe_to_what_it_may_describe(coordinating, bob):
    def beat(client, *topics):
        values = {"group_id": "n", "member_id": "m", "member_epoch": 0, "rebalance_timeout": 1000}
        return client.ask(
            v.CONSUMER_GROUP_HEARTBEAT, 1, **values, subscribed_topic_names=list(topics), topic_partitions=[]
        ).error_code

    def described():
        (group,) = bob.ask(v.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["n"]).groups
        return group.error_code, len(group.members)

    world = coordinating
    assert beat(bob, "t") == NO_GROUP
    world.allow(rule(BOB, Operation.READ, GROUP, "n"))
    assert beat(bob, "t") == NO_TOPIC
    world.allow(rule(BOB, Operation.DESCRIBE))
    assert beat(bob, "t") == NONE
    assert described() == (NONE, 1)
    assert beat(world.user(ALICE), "t", "u") == NONE
    assert described() == (NO_TOPIC, 0)


# ------------------------------------------------------------------------------------------------------ transactions


def init(client, transactional_id=None):
    values = {"transactional_id": transactional_id, "transaction_timeout": 1000}
    return client.ask(v.INIT_PRODUCER_ID, 4, **values, producer_id=-1, producer_epoch=-1).error_code


def test_who_may_write_some_topic_may_write_idempotently(world, bob):
    assert init(bob) == NO_CLUSTER
    world.allow(rule(BOB, Operation.WRITE, name="x"), rule(BOB, Operation.WRITE, name="x", permission=Permission.DENY))
    assert init(bob) == NO_CLUSTER
    world.allow(rule(BOB, Operation.WRITE, name="y", pattern=PatternType.PREFIXED))
    assert init(bob) == NONE
    carol = world.user(CAROL)
    world.allow(on_cluster(CAROL, Operation.IDEMPOTENT_WRITE))
    assert init(carol) == NONE


def test_a_transaction_is_of_who_may_write_with_its_id(world, bob):
    world.user(ALICE).ask(v.FIND_COORDINATOR, 3, key="x", key_type=1)
    world.run(1000)
    world.user(ALICE).ask(v.FIND_COORDINATOR, 3, key="g", key_type=0)
    world.run(1000)
    ids = {"transactional_id": "x", "producer_id": 0, "producer_epoch": 0}
    old = {f"v3_and_below_{key}": value for key, value in ids.items()}
    assert init(bob, "x") == NO_ID
    assert bob.ask(v.END_TXN, 3, **ids, committed=True).error_code is NO_ID
    assert bob.ask(v.ADD_OFFSETS_TO_TXN, 3, **ids, group_id="g").error_code is NO_ID
    world.allow(rule(BOB, Operation.WRITE, TRANSACTIONAL_ID, "x"))
    world.run(100)
    assert init(bob, "x") == NONE
    assert bob.ask(v.ADD_OFFSETS_TO_TXN, 3, **ids, group_id="g").error_code is NO_GROUP
    topics = [{"name": name, "partitions": [0]} for name in "tu"]
    world.allow(rule(BOB, Operation.WRITE))
    added = bob.ask(v.ADD_PARTITIONS_TO_TXN, 3, **old, v3_and_below_topics=topics).results_by_topic_v3_and_below
    assert [(one.name, one.results_by_partition[0].partition_error_code) for one in added] == [
        ("t", ErrorCode.OPERATION_NOT_ATTEMPTED),
        ("u", NO_TOPIC),
    ]
    assert bob.ask(v.ADD_PARTITIONS_TO_TXN, 4, transactions=[]).error_code is NO_CLUSTER
    assert (
        world.user(CAROL).ask(v.LIST_TRANSACTIONS, 0, state_filters=[], producer_id_filters=[]).transaction_states == ()
    )
    states = bob.ask(v.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["x", "y"]).transaction_states
    assert {one.transactional_id: one.error_code for one in states} == {"x": NONE, "y": NO_ID}


# ------------------------------------------------------------------------------------------------------------- admin


def created(client, *names):
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    answer = client.ask(v.CREATE_TOPICS, 7, topics=topics, timeout=1000, validate_only=False)
    return {one.name: (one.error_code, int(one.num_partitions)) for one in answer.topics}


def test_topics_are_created_and_deleted_by_who_may(world, bob):
    world.allow(rule(BOB, Operation.CREATE, name="b-", pattern=PatternType.PREFIXED))
    assert created(bob, "b-1", "x") == {"b-1": (NONE, -1), "x": (NO_TOPIC, -1)}, "of its settings nothing is told"
    world.allow(on_cluster(BOB, Operation.CREATE), rule(BOB, Operation.DESCRIBE_CONFIGS, name="x"))
    assert created(bob, "x") == {"x": (NONE, 1)}
    world.run(200)

    def deleted(*named):
        topics = [{"name": None, "topic_id": None, **one} for one in named]
        answer = bob.ask(v.DELETE_TOPICS, 6, topics=topics, timeout=1000)
        return {one.name: one.error_code for one in answer.responses}

    assert deleted({"name": "t"}) == {"t": NO_TOPIC}
    assert deleted({"topic_id": world.topic_id("t")}) == {None: NO_TOPIC}
    world.allow(rule(BOB, Operation.DESCRIBE), rule(BOB, Operation.DELETE, name="u"))
    assert deleted({"topic_id": world.topic_id("t")}) == {"t": NO_TOPIC}
    assert deleted({"name": "u"}, {"name": "t"}) == {"u": NONE, "t": NO_TOPIC}


def test_settings_are_seen_and_changed_by_who_may(world, bob):
    def described():
        resources = [{"resource_type": kind, "resource_name": name} for kind, name in [(2, "t"), (4, "1")]]
        results = bob.ask(v.DESCRIBE_CONFIGS, 4, resources=resources).results
        return {one.resource_name: one.error_code for one in results}

    def altered(api, **op):
        configs = [{"name": "retention.ms", "value": "1000", **op}]
        resources = [{"resource_type": 2, "resource_name": "t", "configs": configs}]
        return bob.ask(api, 1, resources=resources, validate_only=False).responses[0].error_code

    assert described() == {"t": NO_TOPIC, "1": NO_CLUSTER}
    assert altered(v.INCREMENTAL_ALTER_CONFIGS, config_operation=0) == NO_TOPIC
    assert altered(v.ALTER_CONFIGS) == NO_TOPIC
    world.allow(rule(BOB, Operation.ALTER_CONFIGS), on_cluster(BOB, Operation.DESCRIBE_CONFIGS))
    assert described() == {"t": NONE, "1": NONE}
    assert altered(v.INCREMENTAL_ALTER_CONFIGS, config_operation=0) == NONE
    assert altered(v.ALTER_CONFIGS) == NONE


def test_settings_of_a_group_are_seen_and_changed_by_who_may(world, bob):
    def asked():
        named = {"resource_type": 32, "resource_name": "g"}
        key = "consumer.session.timeout.ms"
        configs = [{"name": key, "value": "50000", "config_operation": 0}]
        changes = [{**named, "configs": configs}]
        (seen,) = bob.ask(v.DESCRIBE_CONFIGS, 4, resources=[{**named, "configuration_keys": None}]).results
        (changed,) = bob.ask(v.INCREMENTAL_ALTER_CONFIGS, 1, resources=changes, validate_only=False).responses
        return seen.error_code, changed.error_code

    group = ResourceType.GROUP
    assert asked() == (NO_GROUP, NO_GROUP)
    world.allow(rule(BOB, Operation.DESCRIBE_CONFIGS, kind=group, name="g"))
    assert asked() == (NONE, NO_GROUP)
    world.allow(rule(BOB, Operation.ALTER_CONFIGS, kind=group, name="g"))
    assert asked() == (NONE, NONE)


def test_what_is_of_the_cluster_needs_an_operation_on_it(world, bob):
    asks: dict[int, tuple[int, dict[str, Any], Operation]] = {
        v.DESCRIBE_CLIENT_QUOTAS: (1, {"components": [], "strict": False}, Operation.DESCRIBE_CONFIGS),
        v.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, {"users": None}, Operation.DESCRIBE),
        v.DESCRIBE_LOG_DIRS: (4, {"topics": None}, Operation.DESCRIBE),
        v.LIST_PARTITION_REASSIGNMENTS: (0, {"topics": None, "timeout": 1000}, Operation.DESCRIBE),
        v.ALTER_PARTITION_REASSIGNMENTS: (0, {"topics": [], "timeout": 1000}, Operation.ALTER),
        v.ELECT_LEADERS: (2, {"election_type": 0, "topic_partitions": [], "timeout": 1000}, Operation.ALTER),
        v.LIST_CONFIG_RESOURCES: (1, {"resource_types": []}, Operation.DESCRIBE_CONFIGS),
    }
    for api, (version, values, operation) in asks.items():
        carol = world.user(CAROL)
        assert carol.ask(api, version, **values).error_code is NO_CLUSTER, api_name(api)
        world.allow(on_cluster(BOB, operation))
        assert bob.ask(api, version, **values).error_code is NONE, api_name(api)
    assert created(world.user(CAROL), "x") == {"x": (NO_TOPIC, -1)}
    names = [{"name": "t", "count": 2, "assignments": None}]
    more = bob.ask(v.CREATE_PARTITIONS, 3, topics=names, timeout=1000, validate_only=False)
    assert more.results[0].error_code is NO_TOPIC


# -------------------------------------------------------------------------------------------------------------- acls


EVERY = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def test_rules_are_described_created_and_deleted_by_who_may(world, bob):
    assert bob.ask(v.DESCRIBE_ACLS, 3, **EVERY).error_code is NO_CLUSTER
    made = rule(BOB, Operation.READ)
    assert [one.error_code for one in bob.ask(v.CREATE_ACLS, 3, creations=[made]).results] == [NO_CLUSTER]
    assert [one.error_code for one in bob.ask(v.DELETE_ACLS, 3, filters=[EVERY]).filter_results] == [NO_CLUSTER]
    world.allow(made, rule(BOB, Operation.WRITE), on_cluster(BOB, Operation.ALTER))
    (topic,) = bob.ask(v.DESCRIBE_ACLS, 3, **{**EVERY, "resource_type_filter": int(TOPIC)}).resources
    assert (topic.resource_name, topic.pattern_type) == ("t", PatternType.LITERAL)
    assert [(one.principal, one.host, one.operation, one.permission_type) for one in topic.acls] == [
        ("User:bob", "*", Operation.READ, Permission.ALLOW),
        ("User:bob", "*", Operation.WRITE, Permission.ALLOW),
    ]
    wrong = {**EVERY, "operation": 99}
    results = bob.ask(v.DELETE_ACLS, 3, filters=[{**EVERY, "operation": int(Operation.READ)}, wrong]).filter_results
    assert [(one.error_code, one.error_message, len(one.matching_acls)) for one in results] == [
        (NONE, None, 1),
        (ErrorCode.INVALID_REQUEST, "Unknown entryFilter.", 0),
    ]
    assert len(bob.ask(v.DESCRIBE_ACLS, 3, **EVERY).resources) == 2
    bob.send(v.DESCRIBE_ACLS, 3, **{**EVERY, "operation": 0})
    world.run(50)
    assert bob.closed, "as in Kafka, which cannot read it"


def test_a_name_without_any_rule_is_everybodys_where_the_cluster_says_so(tmp_path):
    world = AclWorld(tmp_path, **{"allow.everyone.if.no.acl.found": "true"})
    world.create(B1)
    bob = world.user(BOB)
    assert produce(bob) == NONE
    world.allow(rule(CAROL, Operation.WRITE))
    assert produce(bob) == NO_TOPIC


def test_nodes_need_no_rule(world):
    """A follower, and what a broker asks of the controller for itself."""
    world.join(B2)
    world.create(B1, B2, topic="two")
    follower = world.call("b2")
    follower.fetch(0, topic="two", replica_id=2, max_wait_ms=0)
    world.run(50)
    assert follower.fetched().error is NONE


class CountedName(str):
    """A name that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __str__(self):
        return self

    def __eq__(self, other):
        CountedName.compared += 1
        return str.__eq__(self, other)


def of_topic(name, number=0):
    commit = {"committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    return [{"name": name, "partitions": [{"partition_index": number, **commit}]}]


def added(transactional_id, topic, number=0):
    one = {"transactional_id": transactional_id, "producer_id": 1, "producer_epoch": 0}
    return {
        **{f"v3_and_below_{name}": value for name, value in one.items()},
        "v3_and_below_topics": [{"name": topic, "partitions": [number]}],
    }


PRODUCER = {"producer_id": 1, "producer_epoch": 0}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("key", "version", "fields", "error"),
    [
        (
            v.OFFSET_FETCH, 9,
            {
                "groups": [{"group_id": "g", "member_epoch": -1, "topics": [
                    {"name": "t", "partition_indexes": [0]}, {"name": "u", "partition_indexes": [0]}]}],
                "require_stable": False,
            },
            NO_TOPIC,
        ),
        (v.OFFSET_COMMIT, 8, {"group_id": "g", "topics": [*of_topic("t"), *of_topic("u")]}, NO_TOPIC),
        (
            v.TXN_OFFSET_COMMIT, 3, {"transactional_id": "tx", "group_id": "g", **PRODUCER, "topics": of_topic("u")},
            NO_TOPIC,
        ),
        (v.ADD_PARTITIONS_TO_TXN, 3, added("tx", "u"), NO_TOPIC),
        (v.ADD_PARTITIONS_TO_TXN, 3, added("other", "t"), NO_ID),
        (v.ADD_PARTITIONS_TO_TXN, 3, added("tx", "t", 9), None),
        (v.ADD_OFFSETS_TO_TXN, 3, {"transactional_id": "tx", **PRODUCER, "group_id": "h"}, NO_GROUP),
        (v.END_TXN, 3, {"transactional_id": "other", **PRODUCER, "committed": True}, NO_ID),
        (
            v.LIST_OFFSETS, 7,
            {"replica_id": -1, "isolation_level": 0, "topics": [
                {"name": "u", "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]}]},
            NO_TOPIC,
        ),
    ],
)  # fmt: skip
def test_a_refusal_of_a_part_is_stated_where_a_client_cannot_work_without(coordinating, key, version, fields, error):
    """None: the client tries again."""
    coordinating.allow(
        rule(BOB, Operation.READ, GROUP, "g"), rule(BOB, Operation.READ), rule(BOB, Operation.WRITE),
        rule(BOB, Operation.WRITE, TRANSACTIONAL_ID, "tx"),
    )  # fmt: skip
    bob, before = coordinating.user(BOB), len(coordinating.rows)
    bob.ask(key, version, **fields)
    told = [row.event for row in coordinating.rows[before:] if isinstance(row.event, trace.RequestRefused)]
    assert [(one.api, one.error) for one in told] == ([] if error is None else [(api_name(key), error.name)])


@pytest.mark.parametrize("user", [ALICE, BOB])
@pytest.mark.parametrize("key", [v.OFFSET_FETCH, v.DESCRIBE_TOPIC_PARTITIONS, v.METADATA])
def test_a_guard_compares_each_name_with_few_others(world, user, key):
    """A list of names that were refused, looked through for each that was asked for, took seconds."""
    world.allow(rule(BOB, Operation.READ, GROUP, "g"))
    names = [CountedName(f"{place:x}") for place in range(1_000)]
    header = RequestHeader(key, v.VERSIONS[key][1], 1, "long", 0)
    asks: dict[int, dict[str, object]] = {
        v.OFFSET_FETCH: {"groups": [{"group_id": "g", "topics": [{"name": name} for name in names]}]},
        v.DESCRIBE_TOPIC_PARTITIONS: {"topics": [{"name": name} for name in names]},
        v.METADATA: {"topics": [{"name": name} for name in names]},
    }
    request = cold.request(key, header.api_version, **asks[key])
    access = world.broker._access
    CountedName.compared = 0
    verdict_of(header, request, Client(f"User:{user}", "10.0.0.1"), access.authorizer, world.broker.base.config)
    assert CountedName.compared < 20 * len(names)


SHARE_PARTS = {"topics": [{"topic_id": UUID(int=1), "partitions": [{"partition": 0}]}]}


def verdict(world, user, key, **fields):
    header = RequestHeader(key, v.VERSIONS[key][1], 1, "share", 0)
    request = cold.request(key, header.api_version, **fields)
    asked = Client(f"User:{user}", "10.0.0.1")
    found = verdict_of(header, request, asked, world.broker._access.authorizer, world.broker.base.config)
    if isinstance(found, dict):
        cold.response(key, header.api_version, **found)  # It is a whole response.
    return found


@pytest.mark.parametrize("key", [v.SHARE_FETCH, v.SHARE_ACKNOWLEDGE, v.SHARE_GROUP_HEARTBEAT])
def test_a_member_of_a_share_group_may_read_the_group(world, key):
    assert verdict(world, BOB, key, group_id="g", member_id="m")["error_code"] is NO_GROUP
    world.allow(rule(BOB, Operation.READ, GROUP, "g"))
    assert isinstance(verdict(world, BOB, key, group_id="g", member_id="m"), Passed)


def test_a_member_of_a_share_group_may_describe_its_topics(world):
    world.allow(rule(BOB, Operation.READ, GROUP, "g"), rule(BOB, Operation.DESCRIBE))
    asked = {"group_id": "g", "member_id": "m"}
    assert isinstance(verdict(world, BOB, v.SHARE_GROUP_HEARTBEAT, **asked, subscribed_topic_names=["t"]), Passed)
    found = verdict(world, BOB, v.SHARE_GROUP_HEARTBEAT, **asked, subscribed_topic_names=["t", "u"])
    assert found["error_code"] is NO_TOPIC


def test_a_member_of_a_streams_group_may_describe_every_topic_of_its_topology(world):
    part = {
        "subtopology_id": "0",
        "source_topics": ["t"],
        "state_changelog_topics": [{"name": "log", "topic_configs": []}],
    }
    asked = {"group_id": "g", "member_id": "m", "topology": {"epoch": 0, "subtopologies": [part]}}
    assert verdict(world, BOB, v.STREAMS_GROUP_HEARTBEAT, **asked)["error_code"] is NO_GROUP
    world.allow(rule(BOB, Operation.READ, GROUP, "g"), rule(BOB, Operation.DESCRIBE, name="t"))
    assert verdict(world, BOB, v.STREAMS_GROUP_HEARTBEAT, **asked)["error_code"] is NO_TOPIC
    world.allow(rule(BOB, Operation.DESCRIBE, name="log"))
    assert isinstance(verdict(world, BOB, v.STREAMS_GROUP_HEARTBEAT, **asked), Passed)
    found = verdict(world, BOB, v.STREAMS_GROUP_DESCRIBE, group_ids=["g"])
    assert isinstance(found, Passed) and found.amend is not None
    for hidden, error in (("log", NONE), ("u", NO_TOPIC)):
        shown = {"subtopologies": [{**part, "source_topics": [hidden], "repartition_source_topics": []}]}
        values = {"group_id": "g", "error_code": NONE, "topology": shown, "members": []}
        assert listed(found.amend({"groups": [values]}), "groups")[0]["error_code"] is error


@pytest.mark.parametrize("key", v.OF_SHARE_STATE, ids=api_name)
def test_only_nodes_ask_a_share_coordinator(world, key):
    found = verdict(world, BOB, key, group_id="g", **SHARE_PARTS)
    assert [one["error_code"] for topic in found["results"] for one in topic["partitions"]] == [NO_CLUSTER]
    assert isinstance(verdict(world, ALICE, key, group_id="g", **SHARE_PARTS), Passed)


def test_offsets_of_share_groups(world):
    wanted = [{"topic_name": name, "partitions": [0]} for name in ("t", "u")]
    groups = [{"group_id": "g", "topics": wanted}, {"group_id": "h", "topics": wanted}]
    world.allow(rule(BOB, Operation.DESCRIBE, GROUP, "g"), rule(BOB, Operation.DESCRIBE))
    found = verdict(world, BOB, v.DESCRIBE_SHARE_GROUP_OFFSETS, groups=groups)
    assert [str(group.group_id) for group in found.request.groups] == ["g"]
    parts = [{"partition_index": 0, "error_code": NONE, "start_offset": 7, "leader_epoch": 0}]
    topics = [{"topic_name": name, "topic_id": UUID(int=1), "partitions": parts} for name in ("t", "u")]
    g, h = found.amend({"groups": [{"group_id": "g", "error_code": NONE, "topics": topics}]})["groups"]
    assert [[one["error_code"] for one in topic["partitions"]] for topic in g["topics"]] == [[NONE], [NO_TOPIC]]
    assert (h["error_code"], h["topics"]) == (NO_GROUP, [])


@pytest.mark.parametrize("key", [v.ALTER_SHARE_GROUP_OFFSETS, v.DELETE_SHARE_GROUP_OFFSETS], ids=api_name)
def test_start_offsets_of_a_share_group_are_changed_for_topics_that_the_client_may_read(world, key):
    alters = key == v.ALTER_SHARE_GROUP_OFFSETS
    more = {"partitions": [{"partition_index": 0, "start_offset": 1}]} if alters else {}
    asked = {"group_id": "g", "topics": [{"topic_name": name, **more} for name in ("t", "u")]}
    world.allow(rule(BOB, Operation.DESCRIBE, GROUP, "g"))
    refusal = verdict(world, BOB, key, **asked)
    assert not isinstance(refusal, Passed) and refusal["error_code"] is NO_GROUP
    world.allow(rule(BOB, Operation.READ if alters else Operation.DELETE, GROUP, "g"), rule(BOB, Operation.READ))
    found = verdict(world, BOB, key, **asked)
    assert [topic.topic_name for topic in found.request.topics] == ["t"]
    done = {"partitions": [{"partition_index": 0, "error_code": NONE}]} if alters else {"error_code": NONE}
    answer = {"error_code": NONE, "responses": [{"topic_name": "t", "topic_id": None, **done}]}
    topics = {one["topic_name"]: one for one in found.amend(answer)["responses"]}
    errors = {name: (one["partitions"][0] if alters else one)["error_code"] for name, one in topics.items()}
    assert errors == {"u": NO_TOPIC, "t": NONE}
    refused = {"error_code": ErrorCode.NON_EMPTY_GROUP, "responses": []}
    assert found.amend(refused) == refused


def test_records_of_a_share_group_are_for_those_who_may_read_the_topic(tmp_path):
    world = AclWorld(tmp_path, profile="kafka-4.3")
    world.create(B1)
    world.allow(rule(BOB, Operation.READ, GROUP, "g"))
    bob = world.user(BOB)
    topic_id = world.broker.base.cache.image.topics["t"].topic_id
    member = {"group_id": "g", "member_id": "AAAAAAAAAAAAAAAAAAAAAA"}
    limits = {"max_bytes": 1000, "max_records": 10, "batch_size": 10}
    partitions = [{"partition_index": 0}]
    topics = [{"topic_id": topic_id, "partitions": partitions}]
    answer = bob.ask(v.SHARE_FETCH, 1, **member, share_session_epoch=0, topics=topics, **limits)
    assert [one.error_code for topic in answer.responses for one in topic.partitions] == [NO_TOPIC]
    acked = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
    topics = [{"topic_id": topic_id, "partitions": [{**partitions[0], "acknowledgement_batches": [acked]}]}]
    answer = bob.ask(v.SHARE_ACKNOWLEDGE, 1, **member, share_session_epoch=1, topics=topics)
    assert answer.responses[0].partitions[0].error_code is NO_TOPIC
    world.allow(rule(BOB, Operation.READ))
    answer = bob.ask(v.SHARE_ACKNOWLEDGE, 1, **member, share_session_epoch=2, topics=topics)
    assert answer.responses[0].partitions[0].error_code is not NO_TOPIC
