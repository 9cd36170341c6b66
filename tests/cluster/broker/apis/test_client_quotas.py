"""What a broker does with clients that exceed a quota (KIP-13, KIP-124, KIP-219)."""

import pytest
from admin_requests import create, topic
from broker_world import B1, B2, MS, SECOND, BrokerWorld, batch

from cluster.protocol.api_00_produce import decode_produce_response
from cluster.protocol.cold import decode_response, milliseconds
from cluster.protocol.fetch_response_codec import decode_fetch_response
from cluster.protocol.versions import (
    ALTER_CLIENT_QUOTAS,
    API_VERSIONS,
    CREATE_TOPICS,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
)
from cluster.server.request_handlers import CpuTimes
from replica.errors import ErrorCode
from replica.trace.events import ClientThrottled


@pytest.fixture
def world(tmp_path):
    world = BrokerWorld(tmp_path).start()
    world.run(100)
    world.create(B1)
    return world


def set_quota(world, names, **quotas):
    entity = [{"entity_type": kind, "entity_name": name} for kind, name in names.items()]
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in quotas.items()]
    entries = [{"entity": entity, "ops": ops}]
    (answer,) = world.call("operator").ask(ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=False).entries
    assert answer.error_code is ErrorCode.NONE, answer.error_message
    world.run(1)


def told(answer, version=9):
    return decode_produce_response(version, answer).throttle_time_ms


def throttled(world):
    return [row.event for row in world.rows if isinstance(row.event, ClientThrottled)]


def resumes(world, caller, milliseconds):
    """Whether a mute connection is read from again within so many milliseconds."""
    before = caller.resumed
    world.run(milliseconds)
    return caller.resumed > before


def test_a_producer_above_its_rate_is_answered_at_once_and_mute_for_as_long_as_it_is_told(world):
    set_quota(world, {"client-id": "p1"}, producer_byte_rate=100.0)
    p1, p2 = world.call("p1"), world.call("p2")
    p1.produce(batch("x" * 800), acks=1)
    assert told(p1.answers[-1]) == 0
    assert p1.stays_mute is False
    p1.produce(batch("y" * 800), acks=1)
    wait_ms = told(p1.answers[-1])
    assert p1.produced().error is ErrorCode.NONE
    assert 7_000 < wait_ms < 9_000
    assert p1.stays_mute
    assert not resumes(world, p1, wait_ms - 1)
    assert resumes(world, p1, 1)
    p2.produce(batch("z" * 8000), acks=1)
    assert told(p2.answers[-1]) == 0
    (event,) = throttled(world)
    assert (event.peer, event.key, event.throttle_time_us) == ("p1", "producer_byte_rate", wait_ms * MS)


def test_the_rate_counts_whole_requests_as_kafka_does(world):
    """A quota of 100 bytes a second allows 1,000 bytes at once: the request's header counts, and its size does not."""
    set_quota(world, {"client-id": "p1"}, producer_byte_rate=100.0)
    p1 = world.call("p1")
    sizes = []
    p1.send = lambda frame, send=p1.send: (sizes.append(len(frame) - 4), send(frame))
    p1.produce(batch("x" * 1000), acks=1)
    assert told(p1.answers[-1]) == round((sizes[0] / 10 - 100) / 100 * 10_000)


def test_without_an_answer_the_connection_is_mute_all_the_same(world):
    set_quota(world, {"client-id": None}, producer_byte_rate=100.0)
    p1 = world.call("p1")
    p1.produce(batch("x" * 2000), acks=0)
    assert p1.answers == []
    assert p1.resumed == 0
    assert not resumes(world, p1, 5_000)
    assert resumes(world, p1, 20_000)


def test_a_consumer_above_its_rate_gets_nothing_and_that_does_not_count(world):
    p1, c1 = world.call("p1"), world.call("c1r")
    p1.produce(batch("x" * 600), acks=1)
    set_quota(world, {"client-id": "c1r"}, consumer_byte_rate=100.0)
    c1.fetch(0, version=11)
    first = decode_fetch_response(11, c1.answers[-1])
    assert (first.throttle_time_ms, len(first.topics)) == (0, 1)
    p1.produce(batch("x" * 600), acks=1)
    c1.fetch(1, version=11)
    second = decode_fetch_response(11, c1.answers[-1])
    assert second.throttle_time_ms > 1000
    assert second.topics == []
    c1.fetch(1, version=11)
    again = decode_fetch_response(11, c1.answers[-1])
    assert again.throttle_time_ms == second.throttle_time_ms, "what was not sent has not been counted"
    world.run(second.throttle_time_ms + 10_000)
    c1.fetch(1, version=11)
    third = decode_fetch_response(11, c1.answers[-1])
    assert (third.throttle_time_ms, len(third.topics)) == (0, 1)


def test_one_fetch_is_no_larger_than_the_rate_allows_in_a_window(world):
    """More would be throttled whatever went before. Of the records, that is: with what is around them in the answer it
    waits once, for as long as makes the window so much longer. source: KafkaApis.handleFetchRequest
    """
    p1, c1 = world.call("p1"), world.call("c1r")
    for _ in range(5):
        p1.produce(batch("x" * 300), acks=1)
    set_quota(world, {"client-id": "c1r"}, consumer_byte_rate=100.0)
    c1.fetch(0, version=11)
    first = decode_fetch_response(11, c1.answers[-1])
    assert first.topics == [] and 0 < first.throttle_time_ms < 1000
    world.run(first.throttle_time_ms)
    c1.fetch(0, version=11)
    second = decode_fetch_response(11, c1.answers[-1])
    assert second.throttle_time_ms == 0
    assert second.topics[0][1][0].records.nbytes == 1000


def test_followers_are_exempt(world):
    epoch = world.join(B2)
    world.create(B1, B2, topic="u")
    set_quota(world, {"client-id": None}, consumer_byte_rate=1.0)
    world.call("p1").produce(batch("x" * 5000), acks=1, topic="u")
    b2 = world.call("b2")
    b2.fetch(0, version=16, topic="u", replica_id=B2, replica_epoch=epoch)
    found = decode_fetch_response(16, b2.answers[-1])
    assert (found.throttle_time_ms, len(found.topics)) == (0, 1)
    assert throttled(world) == []


def test_handlers_of_a_client_are_counted_by_the_time_they_take(tmp_path):
    """20 ms for each request are 2 of 100 in a second: with 0.58 % allowed, the third exceeds what 10 s allow."""
    world = BrokerWorld(tmp_path)
    world.cpu = CpuTimes(request_us=20 * MS)
    world.start()
    world.run(1000)
    world.create(B1)
    set_quota(world, {"client-id": "c"}, request_percentage=0.58)
    client = world.call("c")
    waits = []
    for _ in range(3):
        client.send_only(METADATA, 12, topics=[])
        assert client.answers == [], "the answer leaves when the handler is done"
        world.run(20)
        waits.append(milliseconds(decode_response(METADATA, 12, client.answers.pop()).throttle_time))
    assert waits[:2] == [0, 0]
    assert 100 < waits[2] < 1000
    assert not resumes(world, client, waits[2] - 21)
    assert resumes(world, client, 1)
    assert [event.key for event in throttled(world)] == ["request_percentage"]


@pytest.mark.parametrize(
    ("api", "version", "values"),
    [
        (METADATA, 12, {"topics": []}),
        (API_VERSIONS, 3, {"client_software_name": "c", "client_software_version": "1"}),
        (LIST_OFFSETS, 7, {"replica_id": -1, "isolation_level": 0, "topics": []}),
        (OFFSET_FOR_LEADER_EPOCH, 4, {"replica_id": -1, "topics": []}),
    ],
)
def test_every_answer_says_it(tmp_path, api, version, values):
    world = BrokerWorld(tmp_path)
    world.cpu = CpuTimes(request_us=SECOND)
    world.start()
    world.run(10_000)
    set_quota(world, {"user": "ANONYMOUS"}, request_percentage=1.0)
    client = world.call("c")
    client.send_only(api, version, **values)
    world.run(1001)
    assert milliseconds(decode_response(api, version, client.answers[-1]).throttle_time) == 1000
    assert client.stays_mute


def test_a_broker_that_starts_again_has_forgotten_who_used_what_and_not_the_quotas(world):
    set_quota(world, {"client-id": "p1"}, producer_byte_rate=100.0)
    p1 = world.call("p1")
    p1.produce(batch("x" * 2000), acks=1)
    assert told(p1.answers[-1]) > 0
    world.kill()
    world.start()
    world.run(30_000)
    p1 = world.call("p1")
    p1.produce(batch("x" * 500), acks=1)
    assert told(p1.answers[-1]) == 0
    p1.produce(batch("x" * 800), acks=1)
    assert told(p1.answers[-1]) > 0


def test_new_topics_are_refused_while_the_rate_of_mutations_is_exceeded(world):
    """KIP-599: the request that exceeds it passes, the next one is refused and says for how long."""
    set_quota(world, {"client-id": "admin"}, controller_mutation_rate=1.0)
    admin = world.call("admin")
    assert create(admin, topic("a", 21))["a"].error_code is ErrorCode.NONE
    assert admin.stays_mute is False
    answer = admin.ask(CREATE_TOPICS, 7, topics=[topic("b")], timeout=1000, validate_only=False)
    assert answer.topics[0].error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    wait_ms = milliseconds(answer.throttle_time)
    assert 9_000 < wait_ms <= 10_000
    assert admin.stays_mute
    other = world.call("other")
    assert create(other, topic("c", 30))["c"].error_code is ErrorCode.NONE
    world.run(wait_ms)
    assert create(admin, topic("b"))["b"].error_code is ErrorCode.NONE


def test_a_client_that_does_not_know_that_error_only_has_to_wait(world):
    set_quota(world, {"client-id": "admin"}, controller_mutation_rate=1.0)
    admin = world.call("admin")
    answer = admin.ask(CREATE_TOPICS, 5, topics=[topic("a", 21)], timeout=1000, validate_only=False)
    assert answer.topics[0].error_code is ErrorCode.NONE
    assert milliseconds(answer.throttle_time) == 10_000
    answer = admin.ask(CREATE_TOPICS, 5, topics=[topic("b", 1)], timeout=1000, validate_only=False)
    assert answer.topics[0].error_code is ErrorCode.NONE
    assert milliseconds(answer.throttle_time) > 10_000
