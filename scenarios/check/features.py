"""The rules that levels of features stand for: an operator changes a level, and the run goes on by other rules."""

from __future__ import annotations

from controller.features import ELR_VERSION, TRANSACTION_VERSION, TRANSACTIONS_V2
from replica.rules import Rules
from replica.trace import events as trace


def rules_after(event: trace.ConfigAltered, first: Rules, present: Rules) -> Rules:
    """first: the rules that the run began with     present: those before the event"""
    if (event.topic, event.broker, event.group) != (None, None, None) or event.value is None:
        return present
    if event.key == ELR_VERSION:
        return present.changed({"elr": int(event.value) > 0})
    if event.key == TRANSACTION_VERSION:
        without = "verified" if first.transactions == "v2" else first.transactions
        return present.changed({"transactions": "v2" if int(event.value) >= TRANSACTIONS_V2 else without})
    return present
