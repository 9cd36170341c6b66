"""Transactions in random schedules: producers that have them, readers of what is committed, and faults around the
coordinator, whose topic has leaders as any other.
"""

from __future__ import annotations

import random
from typing import Any

from replica.ids import TRANSACTIONS_TOPIC
from replica.rules import Rules
from scenarios.search.client_troubles import TROUBLES_MS, hold_of, lasting

COORDINATOR = f"leader({TRANSACTIONS_TOPIC}-0)"
TIMEOUTS_MS = (4000, 15_000, 60_000)
"""transaction.timeout.ms"""
HELD = ("WriteTxnMarkers", "EndTxn", "AddPartitionsToTxn", "Produce")


def add_transactions(tree: dict[str, Any], rules: Rules, *, safe: bool) -> list[dict[str, Any]]:
    """Change the clients of a schedule's tree, from a stream of its own. returns: steps for its timeline

    A producer whose id is another one's is fenced by it, or fences it.
    """
    rng = random.Random(f"{tree['seed']}/transactions")
    tree["cluster"]["config"] |= {
        "transaction.state.log.num.partitions": rng.choice((1, 1, 3)),
        "transaction.state.log.min.isr": 2 if safe else rng.choice((1, 2, 2)),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 2000,
    }
    ids: list[str] = []
    for name, workload in tree["workloads"].items():
        if workload["kind"] == "consumer":
            workload["config"]["isolation.level"] = rng.choice(("read_committed", "read_committed", "read_uncommitted"))
        elif not ids or rng.random() < 0.7:
            ids.append(rng.choice(ids) if ids and rng.random() < 0.3 else f"tx-{name}")
            _make_transactional(rng, workload, ids[-1])
    begin_ms, end_ms = TROUBLES_MS
    return [
        _trouble(rng, rules, number, rng.randint(begin_ms, end_ms), safe=safe) for number in range(rng.randint(0, 3))
    ]


def _make_transactional(rng: random.Random, workload: dict[str, Any], transactional_id: str) -> None:
    workload["config"] |= {
        "acks": "all",
        "enable.idempotence": True,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": rng.choice(TIMEOUTS_MS),
    }
    workload["transaction"] = {"records": rng.choice((1, 3, 3, 8))}
    if rng.random() < 0.6:
        workload["transaction"]["abort-every"] = rng.choice((2, 3, 5))


def _trouble(rng: random.Random, rules: Rules, number: int, at_ms: int, *, safe: bool) -> dict[str, Any]:
    verb = rng.choice(("pause", "hold", "hold", "cut") if safe else ("kill", "pause", "hold", "hold", "cut"))
    payload: Any = COORDINATOR
    if verb == "cut":
        payload = {"between": [COORDINATOR, rng.choice(("clients", "leader(t-0)", "leader(t-0)"))]}
    elif verb == "hold":
        payload = _hold(rng, rules)
    return lasting(rng, verb, payload, at_ms=at_ms, label=f"transaction-{verb}-{number}")


def _hold(rng: random.Random, rules: Rules) -> dict[str, Any]:
    """Since KIP-890 it is the leaders that ask a coordinator, with the API by which clients told it before."""
    api = rng.choice(HELD)
    asked_by_leaders = api == "AddPartitionsToTxn" and rules.transactions != "v1"
    sender = "brokers" if api == "WriteTxnMarkers" or asked_by_leaders else "clients"
    return hold_of(rng, sender, api)
