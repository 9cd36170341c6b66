"""Ids of idempotent producers: blocks that the controller gives to brokers (KIP-730)."""

import pytest
from broker_world import B2, BrokerWorld

from cluster.protocol.cold import decode_response, encode_request, request
from cluster.protocol.versions import ALLOCATE_PRODUCER_IDS, INIT_PRODUCER_ID
from replica.errors import ErrorCode

DEFAULTS = {"transactional_id": None, "transaction_timeout": 0, "producer_id": -1, "producer_epoch": -1}


@pytest.fixture
def world(tmp_path):
    world = BrokerWorld(tmp_path).start()
    world.run(100)
    world.join(B2)
    return world


def ask(client, **values):
    return client.ask(INIT_PRODUCER_ID, 4, **{**DEFAULTS, **values})


def ids(client, count):
    answers = [ask(client) for _ in range(count)]
    assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
    return [int(answer.producer_id) for answer in answers]


def asked_of_controller(world):
    return [frame for frame in world.frames if frame[1] == "c1" and frame[2] == ALLOCATE_PRODUCER_IDS]


def test_a_broker_asks_for_each_block_in_time(world):
    client = world.call("p1")
    assert ids(client, 899) == list(range(899))
    assert len(asked_of_controller(world)) == 1
    assert ids(client, 1601) == list(range(899, 2500))
    assert len(asked_of_controller(world)) == 3


def test_producer_ids_are_never_given_twice_not_by_another_life_nor_by_another_controller(world):
    given = ids(world.call("p1"), 1500)
    world.kill()
    world.start()
    world.run(20_000)
    given += ids(world.call("p1"), 10)
    world.stop_controller()
    world.start_controller()
    world.run(20_000)
    given += ids(world.call("p2"), 1500)
    assert len(set(given)) == len(given)


def test_without_a_controller_producers_wait_for_their_ids_but_not_for_ever(world):
    world.stop_controller()
    early, late = world.call("p1"), world.call("p2")
    send(early)
    world.run(20_000)
    send(late)
    world.run(11_000)
    assert answered(early) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert answered(late) == []
    world.start_controller()
    world.run(5_000)
    assert answered(late) == [ErrorCode.NONE]


def test_a_transactional_id_has_a_coordinator_of_its_own(world):
    client = world.call("p1")
    assert ask(client, transactional_id="tx", transaction_timeout=60_000).error_code is ErrorCode.NOT_COORDINATOR
    assert ask(client, transactional_id="tx").error_code is ErrorCode.INVALID_TRANSACTION_TIMEOUT, "looked at first"


def send(client):
    client.send(encode_request(INIT_PRODUCER_ID, 4, 1, "p", request(INIT_PRODUCER_ID, 4, **DEFAULTS)))


def answered(client):
    return [decode_response(INIT_PRODUCER_ID, 4, frame).error_code for frame in client.answers]
