"""Words of `highwater fault` and the steps that they stand for."""

from __future__ import annotations

import shlex

import pytest

from scenarios.language.selectors import parse_term
from scenarios.language.verbs.command_words import ShorthandError
from scenarios.language.verbs.every import VERBS, step_of

NODES = ("b1", "b2", "b3", "c1", "eu-1", "eu-2", "client/app-b1")


@pytest.mark.parametrize(
    ("words", "step"),
    [
        ("kill b1", {"kill": "b1"}),
        ("power-off b1,b2 5s", {"power_off": ["b1", "b2"], "for": "5s"}),
        ("pause b2 3s", {"pause": "b2", "for": "3s"}),
        ("rolling-restart b1 b2 b3", {"rolling_restart": ["b1", "b2", "b3"]}),
        ("rolling_restart rack(A)", {"rolling_restart": "rack(A)"}),
        ("rolling_restart brokers=b1,b2 pause=5s", {"rolling_restart": {"brokers": ["b1", "b2"], "pause": "5s"}}),
        ("kill follower(t-0,1)", {"kill": "follower(t-0,1)"}),
        ("cut b1-b3 to 3s", {"cut": {"between": ["b1", "b3"], "direction": "to"}, "for": "3s"}),
        ("cut b1 b2,b3", {"cut": {"between": ["b1", ["b2", "b3"]]}}),
        ("cut leader(t-0)-b3", {"cut": {"between": ["leader(t-0)", "b3"]}}),
        ("cut eu-1-eu-2", {"cut": {"between": ["eu-1", "eu-2"]}}),
        ("cut eu-1 b1", {"cut": {"between": ["eu-1", "b1"]}}),
        ("cut client/app-b1-b2", {"cut": {"between": ["client/app-b1", "b2"]}}),
        ("cut client/no-body-eu-1", {"cut": {"between": ["client/no-body", "eu-1"]}}),
        ("cut b1-client/no-body", {"cut": {"between": ["b1", "client/no-body"]}}),
        ("cut client/no-body b1", {"cut": {"between": ["client/no-body", "b1"]}}),
        ("heal", {"heal": "all"}),
        ("heal slow other", {"heal": ["slow", "other"]}),
        ("latency b1-b2 200ms 5s", {"latency": {"between": ["b1", "b2"], "add": "200ms"}, "for": "5s"}),
        ("hold b2-b1 Fetch request", {"hold": {"from": "b2", "to": "b1", "part": "request", "api": "Fetch"}}),
        (
            "reset_offsets billing orders earliest",
            {"reset_offsets": {"group": "billing", "topic": "orders", "to": "earliest"}},
        ),
        ("reset_offsets billing orders 0", {"reset_offsets": {"group": "billing", "topic": "orders", "to": "0"}}),
        ("reset_offsets billing orders -5", {"reset_offsets": {"group": "billing", "topic": "orders", "shift": "-5"}}),
        ("abort_transaction orders-0", {"abort_transaction": "orders-0"}),
        ("abort_transaction orders-0 7", {"abort_transaction": {"partition": "orders-0", "offset": "7"}}),
        ("fence_producer orders", {"fence_producer": "orders"}),
        ("hold b2-b1 1", {"hold": {"from": "b2", "to": "b1", "count": "1"}}),
        ("hold b2-b1 Fetch 3 10s", {"hold": {"from": "b2", "to": "b1", "api": "Fetch", "count": "3"}, "for": "10s"}),
        ("fail Produce REQUEST_TIMED_OUT", {"fail": {"api": "Produce", "errors": ["REQUEST_TIMED_OUT"]}}),
        (
            "fail Produce b1 t-0,t-1 CORRUPT_MESSAGE,INVALID_RECORD 3 after 10s",
            {
                "fail": {
                    "api": "Produce",
                    "errors": ["CORRUPT_MESSAGE", "INVALID_RECORD"],
                    "times": "3",
                    "when": "after",
                    "broker": ["b1"],
                    "partitions": ["t-0", "t-1"],
                },
                "for": "10s",
            },
        ),
        ("fail api=Fetch delay=2s times=all", {"fail": {"api": "Fetch", "delay": "2s", "times": "all"}}),
        ("partition b1 b2,b3,c1", {"partition": [["b1"], ["b2", "b3", "c1"]]}),
        ("elect orders-0 b1 unclean", {"elect": {"partition": "orders-0", "broker": "b1", "unclean": True}}),
        ("elect", {"elect": "preferred"}),
        ("set_config t a.b=1 c=", {"set_config": {"topic": "t", "config": {"a.b": "1", "c": ""}}}),
        ("set_config b1,b2 a.b=1", {"set_config": {"brokers": ["b1", "b2"], "config": {"a.b": "1"}}}),
        ("update_features a.version=1", {"update_features": {"features": {"a.version": "1"}}}),
        (
            "update_features a.version=0 safe_downgrade",
            {"update_features": {"features": {"a.version": "0"}, "upgrade_type": "safe_downgrade"}},
        ),
        ("slow_disk brokers=b1,b2 read=2s", {"slow_disk": {"brokers": ["b1", "b2"], "read": "2s"}}),
        ("bump_clock b1 -60s", {"bump_clock": {"brokers": "b1", "by": "-60s"}}),
    ],
)
def test_words(words: str, step: object) -> None:
    assert step_of(words.split(), NODES, None, None) == step


def test_a_client_may_have_a_space_in_its_name() -> None:
    """In a shell it stands in quotes."""
    step = step_of(["cut", "client/shop app", "b1"], NODES, None, None)
    assert step == {"cut": {"between": ["client/shop app", "b1"]}}
    assert parse_term("client/shop app").names == ("client/shop app",)


def test_for_and_as_are_fields_of_the_step() -> None:
    assert step_of(["kill", "b1"], NODES, "3s", "first") == {"kill": "b1", "for": "3s", "as": "first"}


@pytest.mark.parametrize(
    ("words", "message", "fix"),
    [
        ("kil b1", "unknown fault `kil`", "`kill`"),
        ("crash b1", "unknown fault `crash`", "`kill`"),
        ("kill", "needs a node", "highwater fault kill"),
        ("cut b1", "needs two sides", "cut b1-b3"),
        ("cut a-b-c", "more than one way", "cut b1-b3"),
        ("latency b1-b2", "a time", "200ms"),
        ("resume b1 b2 extra=1", "cannot be combined with fields", "resume"),
        ("flush b1 t-0 now", "does not take `now`", "flush"),
        ("check x", "no short form", "--yaml"),
    ],
)
def test_what_is_no_step_is_told_with_an_example(words: str, message: str, fix: str) -> None:
    with pytest.raises(ShorthandError) as raised:
        step_of(words.split(), NODES, None, None)
    assert message in str(raised.value) and fix in raised.value.fix


def test_every_usage_is_a_step_itself() -> None:
    for verb in VERBS.values():
        if verb.name != "check":
            assert verb.name in step_of(shlex.split(verb.usage), NODES, None, None)
