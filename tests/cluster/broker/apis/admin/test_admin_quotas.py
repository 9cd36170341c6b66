"""Quotas of clients, as an admin client sets and reads them (KIP-546)."""

import pytest

from cluster.protocol.versions import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from replica.errors import ErrorCode
from replica.trace.events import ClientQuotaAltered

EXACT, DEFAULT, SPECIFIED = range(3)
P1 = {"client-id": "p1"}
ALICE, ALICE_P1 = {"user": "alice"}, {"user": "alice", "client-id": "p1"}
ANY_USER = {"user": None}


def entry(names, **quotas):
    """names: by type of entity; quotas: None takes one away"""
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in names.items()],
        "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in quotas.items()],
    }


def alter(admin, *entries, validate_only=False):
    """(names, error) of each entity of the answer"""
    answer = admin.ask(ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=validate_only)
    return [
        ({part.entity_type: part.entity_name for part in one.entity}, ErrorCode(int(one.error_code)))
        for one in answer.entries
    ]


def one_error(admin, *entries, **options):
    ((_, error),) = alter(admin, *entries, **options)
    return error


def described(admin, *components, strict=False):
    """components: (type, match type, name)"""
    filters = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
    answer = admin.ask(DESCRIBE_CLIENT_QUOTAS, 1, components=filters, strict=strict)
    if answer.error_code is not ErrorCode.NONE:
        return answer.error_code
    return [
        ({part.entity_type: part.entity_name for part in one.entity}, {value.key: value.value for value in one.values})
        for one in answer.entries
    ]


def test_quotas_are_set_changed_and_taken_away(world, admin):
    assert alter(admin, entry(P1, producer_byte_rate=1000.0, request_percentage=12.5)) == [(P1, ErrorCode.NONE)]
    assert described(admin) == [(P1, {"producer_byte_rate": 1000.0, "request_percentage": 12.5})]
    assert one_error(admin, entry(P1, producer_byte_rate=2000.0, request_percentage=None)) is ErrorCode.NONE
    assert described(admin) == [(P1, {"producer_byte_rate": 2000.0})]
    assert one_error(admin, entry(P1, producer_byte_rate=None, consumer_byte_rate=None)) is ErrorCode.NONE
    assert described(admin) == []
    told = [row.event for row in world.rows if isinstance(row.event, ClientQuotaAltered)]
    assert [(event.entity, event.key, event.value) for event in told] == [
        ("client-id p1", "producer_byte_rate", "1000"),
        ("client-id p1", "request_percentage", "12.5"),
        ("client-id p1", "producer_byte_rate", "2000"),
        ("client-id p1", "request_percentage", None),
        ("client-id p1", "producer_byte_rate", None),
    ]


def test_only_what_changes_is_written(world, admin):
    alter(admin, entry(P1, producer_byte_rate=1000.0))
    before = world.controller.log.end.offset
    assert one_error(admin, entry(P1, producer_byte_rate=1000.0)) is ErrorCode.NONE
    assert one_error(admin, entry(P1, consumer_byte_rate=5.0), validate_only=True) is ErrorCode.NONE
    assert one_error(admin, entry(P1, consumer_byte_rate=-5.0), validate_only=True) is ErrorCode.INVALID_REQUEST
    assert world.controller.log.end.offset == before
    assert described(admin) == [(P1, {"producer_byte_rate": 1000.0})]


@pytest.mark.parametrize(
    ("names", "quotas"),
    [
        ({}, {"producer_byte_rate": 1.0}),
        ({"client-id": ""}, {"producer_byte_rate": 1.0}),
        ({"ip": "127.0.0.1"}, {"connection_creation_rate": 1.0}),
        ({"group": "g"}, {"producer_byte_rate": 1.0}),
        (P1, {"no_such_rate": 1.0}),
        (P1, {"producer_byte_rate": 0.0}),
        (P1, {"request_percentage": -1.0}),
        (P1, {"request_percentage": float("nan")}),
        (P1, {"consumer_byte_rate": 0.5}),
        (P1, {"producer_byte_rate": 1e30}),
        (P1, {"consumer_byte_rate": 1.0, "producer_byte_rate": -1.0}),
    ],
)
def test_what_is_no_quota_is_refused_whole(admin, names, quotas):
    entity = {**entry(names), "ops": [{"key": key, "value": value, "remove": False} for key, value in quotas.items()]}
    assert alter(admin, entity) == [(names, ErrorCode.INVALID_REQUEST)]
    assert described(admin) == []


def test_of_an_entity_that_is_named_twice_the_first_change_is_made_and_the_answer_is_an_error(admin):
    """source: ClientQuotaControlManager.alterClientQuotas"""
    answer = alter(
        admin,
        entry(P1, producer_byte_rate=1.0),
        entry(ALICE, producer_byte_rate=2.0),
        entry(P1, consumer_byte_rate=3.0),
    )
    assert answer == [(P1, ErrorCode.INVALID_REQUEST), (ALICE, ErrorCode.NONE)]
    assert described(admin) == [(P1, {"producer_byte_rate": 1.0}), (ALICE, {"producer_byte_rate": 2.0})]
    twice = entry(P1, producer_byte_rate=7.0)
    twice["ops"] *= 2
    assert one_error(admin, twice) is ErrorCode.INVALID_REQUEST
    assert described(admin)[0] == (P1, {"producer_byte_rate": 1.0})


def test_a_filter_lets_through_what_it_names(admin):
    """source: ClientQuotasImage.describe"""
    quota = {"producer_byte_rate": 1.0}
    for names in (P1, ALICE, ALICE_P1, ANY_USER):
        alter(admin, entry(names, **quota))

    def found(*components, strict=False):
        return [names for names, _ in described(admin, *components, strict=strict)]

    assert found() == [P1, ALICE, ALICE_P1, ANY_USER]
    assert found(strict=True) == []
    assert found(("user", EXACT, "alice")) == [ALICE, ALICE_P1]
    assert found(("user", EXACT, "alice"), strict=True) == [ALICE]
    assert found(("user", DEFAULT, None)) == [ANY_USER]
    assert found(("user", SPECIFIED, None)) == [ALICE, ALICE_P1, ANY_USER]
    assert found(("user", SPECIFIED, None), ("client-id", EXACT, "p1"), strict=True) == [ALICE_P1]


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", EXACT, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", SPECIFIED, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "x"), ("user", SPECIFIED, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", SPECIFIED, None)], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_filter_that_cannot_be_is_refused(admin, components, error):
    assert described(admin, *components) is error


def test_a_controller_and_a_broker_that_come_back_know_the_quotas(world, admin):
    alter(admin, entry(P1, producer_byte_rate=1.0), entry(ANY_USER, request_percentage=0.5))
    world.stop_controller()
    world.start_controller()
    world.kill()
    world.start()
    world.run(30_000)
    assert described(world.call("admin")) == [
        (P1, {"producer_byte_rate": 1.0}),
        (ANY_USER, {"request_percentage": 0.5}),
    ]
