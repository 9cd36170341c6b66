"""ListTransactions by a pattern, which is the client's: RE2 reads it in linear time."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker_world import BrokerWorld

from cluster.protocol.versions import FIND_COORDINATOR, INIT_PRODUCER_ID, LIST_TRANSACTIONS
from replica.errors import ErrorCode

LONG = "a" * 30_000


@pytest.fixture
def listed(tmp_path: Path):
    world = BrokerWorld(
        tmp_path, transaction_state_log_replication_factor="1", transaction_state_log_num_partitions="1"
    ).start()
    world.run(500)
    client = world.call("client")
    client.ask(FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["orders-1"])
    for transactional_id in ("orders-1", "orders-22", LONG):
        world.run(1_000)
        answer = client.ask(INIT_PRODUCER_ID, 4, transactional_id=transactional_id, transaction_timeout=60_000)
        assert answer.error_code is ErrorCode.NONE

    def ask(pattern: str | None):
        return client.ask(
            LIST_TRANSACTIONS, 2, state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern
        )

    return ask


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, ["orders-1", "orders-22", LONG]),
        ("", ["orders-1", "orders-22", LONG]),
        (r"orders-\d{2}", ["orders-22"]),
        ("^orders-[0-9]+$", ["orders-1", "orders-22"]),
        ("orders", []),
        ("(a+)+b", []),
        ("(a|aa)*c", []),
    ],
)
def test_a_pattern_describes_whole_ids(listed, pattern: str | None, found: list[str]) -> None:
    answer = listed(pattern)
    assert answer.error_code is ErrorCode.NONE
    assert sorted(one.transactional_id for one in answer.transaction_states) == sorted(found)


@pytest.mark.parametrize("pattern", ["(", "(?=a)b", r"(a)\1", "a{2000}"])
def test_what_is_no_pattern_of_re2_is_refused(listed, pattern: str) -> None:
    assert listed(pattern).error_code is ErrorCode.INVALID_REGULAR_EXPRESSION
