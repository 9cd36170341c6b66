"""Every well-formed request about groups is answered once, and no connection closes over it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from broker_world import B1, BrokerWorld, Caller
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.protocol import cold
from cluster.protocol.entities import shapes
from cluster.protocol.versions import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
    VERSIONS,
    api_name,
)
from controller.inputs import DeleteTopic
from replica.ids import OFFSETS_TOPIC

APIS = (
    FIND_COORDINATOR, JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP, OFFSET_COMMIT, OFFSET_FETCH, OFFSET_DELETE,
    DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS, TXN_OFFSET_COMMIT,
)  # fmt: skip
CORRELATION_ID = 77
MAY_WAIT = (JOIN_GROUP, SYNC_GROUP, OFFSET_COMMIT, TXN_OFFSET_COMMIT)
"""Until the other members come, the replicas, or another coordinator; all others are answered at once."""
NUMBERS = st.sampled_from([-(2**31), -1, 0, 1, 2, 2**31 - 1])
TIMES_MS = st.sampled_from([-1, 0, 6000, 10_000, 1_800_000, 2**31 - 1])
NAMES = st.sampled_from(["", "g", "h", "t", "consumer", "range", "x" * 300, "\0<b>"])


@st.composite
def requests(draw: st.DrawFn, known: list[str]) -> tuple[int, int, dict[str, Any]]:
    """(api, version, fields): names, ids and numbers from a small world, so that they often meet."""
    api = draw(st.sampled_from(APIS))
    version = draw(st.integers(*VERSIONS[api]))
    return api, version, draw(fields(cold.request_class(api, version), tuple(known)))


def fields(entity: type, known: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    values: dict[str, st.SearchStrategy[Any]] = {}
    for name, shape in shapes(entity).items():
        if shape.entity is not None:
            value: st.SearchStrategy[Any] = fields(shape.entity, known)
        elif name == "member_id":
            value = st.sampled_from(["", "nobody", *known])
        else:
            value = {
                "string": NAMES,
                "bytes": st.binary(max_size=20),
                "bool": st.booleans(),
                "int8": st.sampled_from([-1, 0, 1]),
                "int16": st.sampled_from([-(2**15), -1, 0, 1]),
                "timedelta_i32": TIMES_MS,
                "timedelta_i64": st.sampled_from([-1, 0, 1000, 2**46]),
            }.get(str(shape.kafka_type), NUMBERS)
        if shape.is_array:
            value = st.lists(value, max_size=2)
        values[name] = st.one_of(st.none(), value) if shape.is_nullable else value
    return st.fixed_dictionaries(values)


@pytest.mark.soak
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_whatever_is_asked_of_groups(data: st.DataObject) -> None:
    """Requests that still wait at the end learn that the coordinator is gone: the topic of offsets is deleted."""
    with tempfile.TemporaryDirectory() as root:
        world = BrokerWorld(Path(root), group_initial_rebalance_delay_ms="10").start()
        world.run(100)
        world.create(B1)
        world.create(B1, topic=OFFSETS_TOPIC)
        world.run(10)
        callers: list[tuple[str, Caller]] = []
        for number in range(data.draw(st.integers(1, 12))):
            groups = world.broker.groups.coordinator.index.groups.values()
            ids = [one for group in groups for one in (*group.members, *group.pending_members)]
            api, version, values = data.draw(requests(ids))
            caller = world.call(f"c{number}")
            caller.send(cold.encode_request(api, version, 1, "c", cold.request(api, version, **values)))
            callers.append((f"{api_name(api)} {version} {values}", caller))
            assert caller.answers or api in MAY_WAIT, f"{api_name(api)} has no answer"
            world.run(data.draw(st.sampled_from([0, 20, 7000])))
        world.decide(DeleteTopic(now_us=world.now_us, name=OFFSETS_TOPIC))
        for asked, caller in callers:
            assert (len(caller.answers), caller.closed) == (1, False), asked


@pytest.mark.parametrize("api", APIS, ids=api_name)
def test_every_version_is_answered(api: int, tmp_path: Path) -> None:
    """With nothing in it but defaults: to be refused is an answer."""
    world = BrokerWorld(tmp_path).start()
    world.run(100)
    for version in range(VERSIONS[api][0], VERSIONS[api][1] + 1):
        caller = world.call(f"c{version}")
        caller.send(cold.encode_request(api, version, CORRELATION_ID, "c", cold.request(api, version)))
        assert (len(caller.answers), caller.closed) == (1, False), version
        correlation_id = int.from_bytes(caller.answers[0][:4], "big")
        cold.decode_response(api, version, caller.answers[0])
        assert correlation_id == CORRELATION_ID, version
