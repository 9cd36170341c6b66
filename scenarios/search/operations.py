"""Operators' actions in random schedules: changes of replicas, settings, topics and quotas.

Operators also delete records and unregister brokers. None of these actions breaks a promise. Replicas and partitions
change in the topic `t`, which every schedule has. A second topic, `u`, is deleted and created again while clients use
it; `t` is not, because a topic that was ever deleted is not judged any more.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from replica.rules import Rules
from scenarios.search.troubles import GAPS_MS, LASTING_MS, QUORUM_STANDS_MS, SENDING_ENDS_MS, STARTS_MS

Tree = dict[str, Any]
FIRST_TRANSACTIONAL_ID = "tx-p1"
"""transactional.id of the first producer, if producers use transactions."""


def add_operations(tree: Tree, rules: Rules, *, safe: bool) -> list[Tree]:
    """Return steps with operators' actions for the timeline of `tree`, and change its cluster as they need it.

    The actions have their own random stream.
    """
    operator = _Operator(random.Random(f"{tree['seed']}/operators"), tree, rules, safe=safe)
    return operator.steps()


class _Operator:
    def __init__(self, rng: random.Random, tree: Tree, rules: Rules, *, safe: bool) -> None:
        self.rng, self.tree, self.rules, self.safe = rng, tree, rules, safe
        self.brokers = list(tree["cluster"]["brokers"])
        partitions = tree["topics"]["t"]["partitions"]
        self.partitions = partitions if isinstance(partitions, int) else len(partitions)
        tree["cluster"]["config"]["log.retention.check.interval.ms"] = rng.choice((1000, 3000))
        self.has_other_topic = rules.membership == "registration" and rng.random() < 0.5
        self.other_topic_is_there_ms = 0
        if self.has_other_topic:
            self._add_other_topic()

    def steps(self) -> list[Tree]:
        kinds: list[Callable[[int], list[Tree]]] = [self._min_isr, self._topic_setting]
        if self.rules.membership == "registration":
            kinds += [self._factor, self._factor, self._factor, self._cancel, self._setting_of_brokers]
            kinds += [self._throttle, self._quota, self._add_partitions]
            # A broker that is registered anew counts as uncleanly stopped. The ELR survives only one such stop.
            if not (self.safe and any("power_off" in step for step in self.tree["timeline"])):
                kinds.append(self._forget_broker)
        if self.rules.transactions != "none":
            kinds += [self._delete_records, self._delete_records]
            if not self.safe:  # No promise covers a transaction that an operator ends.
                kinds += [self._end_transaction, self._end_transaction]
        kinds += [self._hold_the_next, self._own_fields]
        if self.has_other_topic:
            kinds += [self._other_topic_again, self._other_topic_again]
        if self.rules.elr and not self.safe:
            kinds.append(self._levels)
        steps = []
        for _ in range(self.rng.randint(2, 7)):
            steps += self.rng.choice(kinds)(self.rng.randint(QUORUM_STANDS_MS, SENDING_ENDS_MS))
        return steps

    # ------------------------------------------------------------------------------------------------------ replicas

    def _factor(self, at_ms: int) -> list[Tree]:
        """Return steps that change a partition's number of replicas, perhaps several times in quick succession."""
        steps, partition = [], self._partition()
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            size = self.rng.randint(min(2, len(self.brokers)) if self.safe else 1, len(self.brokers))
            steps.append(_step(at_ms, "reassign", {"partition": partition, "to": self.rng.sample(self.brokers, size)}))
            at_ms += self.rng.choice(GAPS_MS)
        return steps

    def _cancel(self, at_ms: int) -> list[Tree]:
        """Return steps that cancel a reassignment that has just begun."""
        first, *_ = self._factor(at_ms)
        return [first, _step(at_ms + self.rng.choice(GAPS_MS), "cancel_reassign", first["reassign"]["partition"])]

    def _throttle(self, at_ms: int) -> list[Tree]:
        throttle = {"brokers": self.rng.choice(self.brokers), "rate": self.rng.choice(("5kB/s", "50kB/s"))}
        return [{**_step(at_ms, "throttle", throttle), "for": f"{self.rng.choice(LASTING_MS)}ms"}]

    # ------------------------------------------------------------------------------------------------------ settings

    def _min_isr(self, at_ms: int) -> list[Tree]:
        """Return a step that sets min.insync.replicas, perhaps above the number of replicas."""
        number = self.rng.randint(2 if self.safe else 1, len(self.brokers))
        return [_step(at_ms, "set_config", {"topic": "t", "config": {"min.insync.replicas": number}})]

    def _topic_setting(self, at_ms: int) -> list[Tree]:
        """Return steps that change the retention, rolling or flushing of `t`, and perhaps undo the change."""
        key, values = self.rng.choice((
            ("retention.ms", (1500, 4000)),
            ("retention.bytes", (2000, 8000)),
            ("segment.ms", (1000, 3000)),
            ("flush.messages", (1, 3)),
        ))  # fmt: skip
        steps = [_step(at_ms, "set_config", {"topic": "t", "config": {key: self.rng.choice(values)}})]
        if self.rng.random() < 0.5:
            back_ms = at_ms + self.rng.choice(LASTING_MS)
            steps.append(_step(back_ms, "set_config", {"topic": "t", "config": {key: "default"}}))
        return steps

    def _setting_of_brokers(self, at_ms: int) -> list[Tree]:
        """Return a step that changes the default of a topic configuration on one broker or on all brokers."""
        number = self.rng.randint(2 if self.safe else 1, len(self.brokers))
        changes = [{"log.retention.ms": 4000}, {"min.insync.replicas": number}]
        if not self.safe:
            changes.append({"unclean.leader.election.enable": self.rng.random() < 0.5})
        whose: Tree = {"brokers": self.rng.choice(self.brokers)}
        if self.rules.elr or self.rng.random() < 0.5:
            whose = {"entity_default": "brokers"}
        return [_step(at_ms, "set_config", {**whose, "config": self.rng.choice(changes)})]

    def _levels(self, at_ms: int) -> list[Tree]:
        """Return steps that downgrade the feature ELR to level 0 and upgrade it again."""
        feature = "eligible.leader.replicas.version"
        off = {"features": {feature: 0}, "upgrade_type": "safe_downgrade"}
        on_ms = at_ms + self.rng.choice(LASTING_MS)
        return [_step(at_ms, "update_features", off), _step(on_ms, "update_features", {"features": {feature: 1}})]

    def _quota(self, at_ms: int) -> list[Tree]:
        client = self.rng.choice(list(self.tree["workloads"]))
        key = self.rng.choice(("producer_byte_rate", "consumer_byte_rate"))
        for_ms = self.rng.choice(LASTING_MS)
        return [
            _step(at_ms, "set_quota", {"client": client, "quota": {key: self.rng.choice((500, 5000))}}),
            _step(at_ms + for_ms, "set_quota", {"client": client, "quota": {key: "default"}}),
        ]

    # ------------------------------------------------------------------------------------------- records and brokers

    def _delete_records(self, at_ms: int) -> list[Tree]:
        """Return a step that deletes records up to the high watermark or to a small offset, perhaps beyond the end."""
        what: Tree = {"partition": self._partition()}
        if self.rng.random() < 0.5:
            what["offset"] = self.rng.choice((1, 5, 20))
        return [_step(at_ms, "delete_records", what)]

    def _end_transaction(self, at_ms: int) -> list[Tree]:
        """Return a step that ends a transaction: fence its producer, or abort it in one partition."""
        if self.rng.random() < 0.3:
            return [_step(at_ms, "fence_producer", FIRST_TRANSACTIONAL_ID)]
        return [_step(at_ms, "abort_transaction", self._partition())]

    def _hold_the_next(self, at_ms: int) -> list[Tree]:
        item, other = self.rng.sample(self.brokers, 2)
        hold = {"from": item, "to": self.rng.choice((other, "clients")), "count": self.rng.choice((1, 1, 2))}
        hold["part"] = self.rng.choice(("request", "response"))
        label = f"next-{at_ms}"
        return [{**_step(at_ms, "hold", hold), "for": f"{self.rng.choice(LASTING_MS)}ms", "as": label}]

    def _own_fields(self, at_ms: int) -> list[Tree]:
        """Return a step that sends a record with a timestamp and headers."""
        fields = {"timestamp": self.rng.choice(("-1s", "500ms", 0)), "headers": {"h": "x"}}
        return [_step(at_ms, "produce", {"from": "p1", "count": 1, "partition": self._number(), **fields})]

    def _add_partitions(self, at_ms: int) -> list[Tree]:
        return [_step(at_ms, "create_partitions", {"topic": "t", "count": self.partitions + self.rng.randint(1, 2)})]

    def _forget_broker(self, at_ms: int) -> list[Tree]:
        """Return steps that unregister a broker. It registers again only when it is started anew.

        The broker is either running and restarted later, or stopped before.
        """
        broker = self.rng.choice(self.brokers)
        forget = _step(at_ms, "unregister_broker", broker)
        if self.rng.random() < 0.5:
            return [forget, _step(STARTS_MS[0] + self.rng.choice(GAPS_MS), "restart", broker)]
        stop = {**_step(at_ms - self.rng.choice(LASTING_MS[2:]), "stop", broker), "as": f"forgotten-{at_ms}"}
        return [stop, forget, *(_step(start_ms, "start", f"@{stop['as']}") for start_ms in STARTS_MS)]

    # -------------------------------------------------------------------------------------------------------- topics

    def _add_other_topic(self) -> None:
        """Add the topic `u` with its own producer and consumer, and min.insync.replicas=2 in a safe schedule."""
        rng, workloads = self.rng, self.tree["workloads"]
        config = {"min.insync.replicas": 2} if self.safe else {}
        self.tree["topics"]["u"] = {
            "partitions": rng.choice((1, 2)),
            "replication_factor": rng.randint(2, min(3, len(self.brokers))),
            "config": config,
        }
        for name, workload in list(workloads.items()):
            other = {"producer": "pu", "consumer": "ru"}[workload["kind"]]
            if name in ("p1", "r1"):
                workloads[other] = {**workload, "config": dict(workload["config"]), "topic": "u"}

    def _other_topic_again(self, at_ms: int) -> list[Tree]:
        at_ms = max(at_ms, self.other_topic_is_there_ms)
        again_ms = at_ms + self.rng.choice(GAPS_MS)
        self.other_topic_is_there_ms = again_ms + 1
        return [_step(at_ms, "delete_topic", "u"), _step(again_ms, "create_topic", "u")]

    def _partition(self) -> str:
        return f"t-{self._number()}"

    def _number(self) -> int:
        return self.rng.randrange(self.partitions)


def _step(at_ms: int, verb: str, payload: Any) -> Tree:
    return {"at": f"{at_ms}ms", verb: payload}
