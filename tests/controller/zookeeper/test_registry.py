"""The registry of the ZooKeeper era: files, versions, owners, watches, sessions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.zookeeper.registry import (
    TICK_US,
    CheckVersion,
    Create,
    Delete,
    GetChildren,
    GetData,
    Multi,
    Operation,
    Registry,
    RegistryError,
    SetData,
    WatchEvent,
)
from controller.zookeeper.registry_messages import (
    decode,
    decode_transaction,
    encode,
    encode_transaction,
    operation_fields,
    operation_of,
    result_fields,
    result_of,
)

SIX_SECONDS_US = 6_000_000


def registry_with(*clients: str) -> tuple[Registry, list[int]]:
    registry = Registry()
    return registry, [registry.open_session(client, SIX_SECONDS_US, 0) for client in clients]


def test_a_file_is_changed_only_in_the_version_one_knows() -> None:
    registry, (one, two) = registry_with("b1", "b2")
    (made,) = registry.apply(one, Create(path="/state", data="a"))
    assert made.version == 0
    (changed,) = registry.apply(one, SetData(path="/state", data="b", version=0))
    assert changed.version == 1
    (refused,) = registry.apply(two, SetData(path="/state", data="c", version=0))
    assert refused.error is RegistryError.BAD_VERSION
    assert registry.apply(two, GetData(path="/state"))[0].data == "b"


def test_a_multi_that_fails_changes_nothing() -> None:
    registry, (one,) = registry_with("b1")
    registry.apply(one, Create(path="/epoch", data="1"))
    take_over = Multi(ops=(Create(path="/controller", ephemeral=True), SetData(path="/epoch", data="2", version=7)))
    assert [result.error for result in registry.apply(one, take_over)] == [RegistryError.BAD_VERSION]
    assert "/controller" not in registry.nodes
    assert registry.nodes["/epoch"].data == "1"


def test_the_first_to_make_a_file_has_it() -> None:
    registry, (one, two) = registry_with("b1", "b2")
    assert registry.apply(one, Create(path="/controller", data="1", ephemeral=True))[0].error is None
    (refused,) = registry.apply(two, Create(path="/controller", data="2", ephemeral=True))
    assert refused.error is RegistryError.NODE_EXISTS


def test_a_session_ends_at_the_tick_after_its_timeout_and_takes_its_files_along() -> None:
    registry, (one, two) = registry_with("b1", "b2")
    registry.apply(one, Create(path="/brokers/ids/1", ephemeral=True))
    registry.apply(one, Create(path="/brokers/topics/t"))
    registry.touch(two, 5_000_000)
    registry.touch(one, 100_000)
    assert registry.next_expiry_us == 8_000_000, "6.1 s, at the next tick of 2 s"
    assert registry.expire(8_000_000 - 1) == []
    assert registry.expire(8_000_000) == ["b1"]
    assert list(registry.nodes) == ["/brokers/topics/t"]
    assert list(registry.sessions) == [two]


def test_a_watch_tells_once_and_also_of_files_that_are_not_there_yet() -> None:
    registry, (one, two) = registry_with("b1", "b2")
    assert registry.apply(two, GetData(path="/controller", watch=True))[0].error is RegistryError.NO_NODE
    registry.apply(two, GetChildren(path="/brokers/ids", watch=True))
    registry.apply(one, Create(path="/controller"))
    registry.apply(one, Create(path="/brokers/ids/1"))
    registry.apply(one, Create(path="/brokers/ids/2"))
    registry.apply(one, SetData(path="/controller", data="x"))
    assert registry.take_events() == [
        WatchEvent(two, "created", "/controller"),
        WatchEvent(two, "children", "/brokers/ids"),
    ]


def test_who_comes_back_hears_what_it_has_missed_and_goes_on_watching_the_rest() -> None:
    registry, (one, two) = registry_with("b1", "b2")
    registry.apply(one, Create(path="/a"))
    registry.apply(one, Create(path="/b"))
    seen = registry.zxid
    registry.apply(one, Delete(path="/a"))
    registry.renew_watches(two, seen, ["/a", "/b"], ["/brokers/ids"])
    assert registry.take_events() == [WatchEvent(two, "changed", "/a")]
    registry.apply(one, SetData(path="/b", data="x"))
    registry.apply(one, Create(path="/brokers/ids/1"))
    assert [event.path for event in registry.take_events()] == ["/b", "/brokers/ids"]


def test_a_server_that_starts_again_gives_every_session_its_time() -> None:
    registry, (one, _) = registry_with("b1", "b2")
    registry.apply(one, Create(path="/brokers/ids/1", data="x", ephemeral=True))
    log = [encode_transaction(transaction) for transaction in registry.take_transactions()]
    later = Registry()
    later.replay(map(decode_transaction, log), 100 * TICK_US)
    assert later.nodes == registry.nodes
    assert later.next_expiry_us == 104 * TICK_US
    assert later.expire(104 * TICK_US) == ["b1", "b2"]
    assert later.nodes == {}


PATHS = st.sampled_from(["/a", "/a/b", "/c"])
VERSIONS = st.integers(-1, 2)
CHANGES = st.one_of(
    st.builds(Create, path=PATHS, data=st.text(max_size=3), ephemeral=st.booleans(), sequential=st.booleans()),
    st.builds(SetData, path=PATHS, data=st.text(max_size=3), version=VERSIONS),
    st.builds(Delete, path=PATHS, version=VERSIONS),
    st.builds(CheckVersion, path=PATHS, version=VERSIONS),
)
OPERATIONS = st.one_of(
    CHANGES,
    st.builds(GetData, path=PATHS, watch=st.booleans()),
    st.builds(GetChildren, path=PATHS, watch=st.booleans()),
    st.builds(Multi, ops=st.lists(st.builds(CheckVersion, path=PATHS, version=VERSIONS), max_size=3).map(tuple)),
)


@given(st.lists(st.tuples(st.integers(0, 1), OPERATIONS), max_size=30))
def test_the_log_alone_gives_the_same_tree_and_the_wire_changes_no_operation(
    asked: list[tuple[int, Operation]],
) -> None:
    registry, sessions = registry_with("b1", "b2")
    for who, operation in asked:
        sent = operation_of(decode(encode({"xid": 1, **operation_fields(operation)})[4:]))
        assert sent == operation
        for result in registry.apply(sessions[who], sent):
            assert result_of(decode(encode(result_fields(result))[4:])) == result
    registry.close_session(sessions[0])
    later = Registry()
    later.replay(map(decode_transaction, map(encode_transaction, registry.take_transactions())), 0)
    assert later.nodes == registry.nodes
    assert all(node.owner != sessions[0] for node in later.nodes.values())
    assert list(later.sessions) == [sessions[1]]
