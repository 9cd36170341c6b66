"""Random fault schedules: a cluster, busy clients, overlapping faults, their repair, and a quiet time.

A seed determines a schedule. The schedule is the tree of a scenario file, which any installation of Highwater can run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

from replica.rules import PROFILES, Rules
from replica.wording import listed
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario
from scenarios.language.write.lock import PlainDumper
from scenarios.observe.wording import count_of
from scenarios.search.mix import Mix
from scenarios.search.operations import add_operations
from scenarios.search.transforming import add_transforms
from scenarios.search.troubles import (
    CHAOS_BEGINS_MS,
    CHAOS_ENDS_MS,
    DELIVERY_MS,
    DURATION_MS,
    FETCH_WAITS_MS,
    GAPS_MS,
    HEALED_MS,
    LAG_MS,
    LASTING_MS,
    QUORUM_STANDS_MS,
    REQUEST_MS,
    SENDING_ENDS_MS,
    SESSIONS_MS,
    STARTS_MS,
    TROUBLES_MS,
    add_errors,
    add_transactions,
    leaders_over_links,
    may_miss_a_rule,
    old_troubles,
)

Tree = dict[str, Any]

_DOWN = ("kill", "stop", "power_off", "fill_disk")
"""Verbs after which a broker may have to be started. A broker with a full disk halts at its next write."""
_MENDED_AT_THE_END = ("stop", "kill", "power_off", "pause", "partition", "cut", "latency", "bandwidth", "loss", "hold")
_UNDONE_BY_FOR = ("slow_disk", "fill_disk", "bump_clock")
"""Verbs whose effect ends only after the time in `for`."""


@dataclass(frozen=True)
class Schedule:
    """A random scenario.

    Attributes:
        tree: content of the scenario file.
        safe: True if Kafka's rules promise a clean verdict for this scenario.
    """

    tree: Tree
    safe: bool

    @property
    def text(self) -> str:
        text: str = yaml.dump(self.tree, Dumper=PlainDumper, sort_keys=False, default_flow_style=None, width=120)
        return text

    @property
    def settings(self) -> str:
        """Return the main settings as text, such as `3 brokers, 2 partitions, RF 3, min ISR 2, acks=1 and all`."""
        topic, workloads = self.tree["topics"]["t"], self.tree["workloads"].values()
        partitions = topic["partitions"]
        assigned = None if isinstance(partitions, int) else partitions
        factor = topic["replication_factor"] if assigned is None else len(next(iter(assigned.values())))
        clients = [client.get("config", {}) for client in workloads if client["kind"] == "producer"]
        acks = dict.fromkeys(str(config.get("acks", "all")) for config in clients)
        return ", ".join([
            count_of(len(self.tree["cluster"]["brokers"]), "broker"),
            count_of(partitions if assigned is None else len(assigned), "partition"),
            f"RF {factor}",
            f"min ISR {topic.get('config', {}).get('min.insync.replicas', 1)}",
            f"acks={listed(sorted(acks))}" if acks else "no producer",
        ])  # fmt: skip

    def scenario(self) -> Scenario:
        return load_text(self.text, "schedule.yaml").scenario


def random_schedule(
    rng: random.Random, *, safe: bool | None = None, profile: str = "kafka-3.9", mix: Mix | None = None
) -> Schedule:
    """Return a random schedule for an era.

    In a safe schedule, Kafka promises a clean verdict: every producer is idempotent with acks=all, min.insync.replicas
    is at least 2, no disk loses data, and no leader election is unclean. Any other fault may happen. With ELR and
    min.insync.replicas=2 a cluster survives one unclean stop of a broker, so such a schedule may have one power failure
    instead of kills. Duplicates that Kafka itself would store (forgotten_batches.py) may occur.

    Args:
        safe: True for a safe schedule, None to choose at random.
        mix: cluster, clients and faults to choose from, with a min ISR of at least 2 for a safe schedule; None for all.
    """
    if safe is None:
        safe = rng.random() < 0.4
    return Schedule(_Draft(rng, safe, profile, mix).tree(), safe)


class _Draft:
    """A builder of one random schedule."""

    def __init__(self, rng: random.Random, safe: bool, profile: str, mix: Mix | None) -> None:
        self.rng = rng
        self.profile = profile
        self.safe = safe
        self.mix = mix
        self.brokers = [f"b{number + 1}" for number in range(rng.choice((3, 3, 4, 5)))]
        self.partitions = rng.choice((1, 1, 2, 3))
        self.replication_factor = rng.choice((2, 3, 3))
        self.producers = [f"p{number + 1}" for number in range(rng.choice((1, 1, 2)))]
        self.consumers = [f"r{number + 1}" for number in range(rng.choice((0, 1, 1, 2)))]
        self.has_elr = PROFILES[profile].elr
        self.one_power_failure = self.has_elr and safe and rng.random() < 0.5
        if mix is not None:
            self.brokers = [f"b{number + 1}" for number in range(mix.brokers)]
            self.partitions, self.replication_factor = mix.partitions, mix.replication_factor
            self.producers = [f"p{number + 1}" for number in range(mix.producers)]
            self.consumers = [f"r{number + 1}" for number in range(mix.consumers)]
        self.instants_ms: list[int] = []
        if mix is not None and mix.bursts:
            self.instants_ms = [rng.randint(CHAOS_BEGINS_MS, CHAOS_ENDS_MS) for _ in range(rng.randint(1, 3))]
        self.on_links = mix is not None and mix.links

    # ------------------------------------------------------------------------------------------------------ the parts

    def tree(self) -> Tree:
        tree = self._tree()
        if tree["seed"] % 4 == 0 and PROFILES[self.profile].membership == "registration":
            _add_controllers(tree)
        if may_miss_a_rule(PROFILES[self.profile]):
            _add_old_troubles(tree, PROFILES[self.profile], self.safe)
        elif self.mix is not None and self.mix.elections:
            _add_elections(tree)
        if self.mix is not None and self.mix.operations:
            tree["timeline"] += add_operations(tree, PROFILES[self.profile], safe=self.safe)
        if self.mix is not None and self.mix.transactions:
            rules = PROFILES[self.profile]
            steps = add_transactions(tree, rules, safe=self.safe) + add_transforms(tree, rules, safe=self.safe)
            tree["timeline"] += [*steps, *repairs(steps)]
        if self.mix is not None and self.mix.errors:
            tree["timeline"] += add_errors(tree, safe=self.safe)
        return tree

    def _tree(self) -> Tree:
        return {
            "schema": 1,
            "id": "random-schedule",
            "title": "A random schedule of faults",
            "seed": self.rng.randint(1, 1_000_000),
            "duration": f"{DURATION_MS}ms",
            "profile": self.profile,
            "cluster": {"brokers": {name: {} for name in self.brokers}, "config": self._cluster_config()},
            "topics": {"t": self._topic()},
            "network": self._network(),
            "workloads": {
                **{name: self._producer(name) for name in self.producers},
                **{name: self._consumer(name) for name in self.consumers},
            },
            "timeline": self._timeline(),
        }

    def _cluster_config(self) -> Tree:
        session_ms, heartbeat_ms = self.rng.choice(SESSIONS_MS)
        return {
            "replica.lag.time.max.ms": self.rng.choice(LAG_MS),
            "replica.fetch.wait.max.ms": self.rng.choice(FETCH_WAITS_MS),
            "broker.session.timeout.ms": session_ms,
            "broker.heartbeat.interval.ms": heartbeat_ms,
            "leader.imbalance.check.interval.seconds": self.rng.choice((300, 300, 3)),
            "num.replica.fetchers": self.rng.choice((1, 1, 2)),
            "replica.socket.timeout.ms": self.rng.choice((30_000, 1500)),
        }

    def _topic(self) -> Tree:
        config: Tree = {
            "min.insync.replicas": 2 if self.safe else self.rng.choice((1, 2)),
            "unclean.leader.election.enable": False if self.safe else self.rng.random() < 0.3,
        }
        if self.mix is not None:
            config["min.insync.replicas"] = self.mix.min_isr
        if self.rng.random() < 0.3:
            config["segment.bytes"] = self.rng.choice((1024, 4096))
        if self.rng.random() < 0.2:
            config["flush.messages"] = 1
        if self.rng.random() < 0.3:
            return {"partitions": self.partitions, "replication_factor": self.replication_factor, "config": config}
        assignment = {
            number: self.rng.sample(self.brokers, self.replication_factor) for number in range(self.partitions)
        }
        return {"partitions": assignment, "config": config}

    def _network(self) -> Tree:
        latency: Any = self.rng.choice(("1ms", "1ms", {"uniform": ["500us", "8ms"]}, {"exponential": "3ms"}))
        return {"latency": latency}

    def _producer(self, name: str) -> Tree:
        rng = self.rng
        acks_of_others = ("0", "1", "all", "all") if self.mix is None else self.mix.acks
        acks = "all" if self.safe else rng.choice(acks_of_others)
        idempotent = self.safe or (acks == "all" and rng.random() < 0.5)
        request_ms = rng.choice(REQUEST_MS)
        config: Tree = {
            "acks": acks,
            "enable.idempotence": idempotent,
            "max.in.flight.requests.per.connection": rng.choice((1, 5)),
            "request.timeout.ms": request_ms,
            # After a batch expires in flight, an idempotent producer continues in a new epoch and may store later
            # records twice (KIP-360). In a safe schedule no batch may expire.
            "delivery.timeout.ms": 120_000 if self.safe else max(request_ms + 20, rng.choice(DELIVERY_MS)),
            "linger.ms": rng.choice((0, 0, 20)),
        }
        workload: Tree = {"kind": "producer", "topic": "t", "config": config}
        workload[rng.choice(("rate", "poisson"))] = f"{rng.choice((2, 4, 10))}/s"
        workload["batch"] = rng.choice((1, 1, 3))
        workload["start"] = f"{rng.randint(500, 2000)}ms"
        workload["stop"] = f"{SENDING_ENDS_MS}ms"
        return workload

    def _consumer(self, name: str) -> Tree:
        config = {"auto.offset.reset": self.rng.choice(("earliest", "earliest", "latest"))}
        return {"kind": "consumer", "topic": "t", "config": config, "start": f"{self.rng.randint(500, 3000)}ms"}

    # ------------------------------------------------------------------------------------------------------ the faults

    def _timeline(self) -> list[Tree]:
        faults = [self._fault(number) for number in range(self.rng.randint(1, 9))]
        if self.one_power_failure:
            faults.append(self._step(len(faults), "power_off", self._broker_or_leader()))
        if self.has_elr and not self.safe and self.rng.random() < 0.3:
            faults += self._new_disk(len(faults))
        faults.sort(key=lambda step: int(str(step["at"]).removesuffix("ms")))
        return faults + self._the_end(faults)

    def _fault(self, number: int) -> Tree:
        verbs: dict[str, Callable[[], Any]] = {
            "kill": self._servers,
            "stop": self._broker_or_leader,
            "restart": self._any_target,
            "pause": self._servers,
            "cut": self._cut,
            "partition": self._islands,
            "latency": self._slow,
            "loss": lambda: {**self._sides(), "rate": self.rng.choice(("1%", "10%", "40%"))},
            "bandwidth": lambda: {**self._sides(), "rate": self.rng.choice(("5kB/s", "50kB/s"))},
            "hold": self._hold,
            "reset_peer": self._sides,
            "elect": self._elect,
            "flush": lambda: "b1",
            "slow_disk": self._slow_disk,
            "fill_disk": self._broker_or_leader,
            "bump_clock": self._bump_clock,
            "reassign": self._reassign,
        }
        if self.one_power_failure:
            verbs |= {"kill": lambda: "c1", "restart": lambda: "c1"}
            verbs.pop("fill_disk")  # The broker would halt uncleanly.
        if PROFILES[self.profile].membership != "registration":
            verbs.pop("reassign")
        if not self.safe:
            verbs |= {"power_off": self._broker_or_leader, "seek": self._seek}
        if not self.safe and self.mix is not None:
            verbs["set_config"] = self._set_config
        if not self.consumers:
            verbs.pop("seek", None)
        if self.mix is not None:
            verbs = {verb: payload for verb, payload in verbs.items() if verb in self.mix.faults} or verbs
        weights = [3 if verb in ("kill", "cut", "hold", "pause", "partition") else 1 for verb in verbs]
        (verb,) = self.rng.choices(list(verbs), weights)
        return self._step(number, verb, verbs[verb]())

    def _step(self, number: int, verb: str, payload: Any) -> Tree:
        step: Tree = {"at": f"{self._at_ms()}ms", verb: payload}
        if verb in _MENDED_AT_THE_END or verb in _UNDONE_BY_FOR:
            step["as"] = f"{verb.replace('_', '-')}-{number}"
            if verb in _UNDONE_BY_FOR or self.rng.random() < 0.8:
                step["for"] = f"{self.rng.choice(LASTING_MS)}ms"
        return step

    def _at_ms(self) -> int:
        if not self.instants_ms:
            return self.rng.randint(CHAOS_BEGINS_MS, CHAOS_ENDS_MS)
        return self.rng.choice(self.instants_ms) + self.rng.choice((0, *GAPS_MS))

    def _new_disk(self, number: int) -> list[Tree]:
        """Return steps that stop or kill a broker and give it an empty disk."""
        at_ms, verb = self.rng.randint(QUORUM_STANDS_MS, CHAOS_ENDS_MS), self.rng.choice(("stop", "kill"))
        label = f"{verb}-{number}"
        down: Tree = {"at": f"{at_ms}ms", verb: self._broker_or_leader(), "as": label}
        return [down, {"at": f"{at_ms + 2500}ms", "wipe": f"@{label}"}]

    def _servers(self) -> str:
        return str(self.rng.choice((*self.brokers, self._leader(), self._leader(), "c1")))

    def _broker_or_leader(self) -> str:
        return str(self.rng.choice((*self.brokers, self._leader(), self._leader())))

    def _any_target(self) -> str:
        # A restarted client has no state. Records of its former incarnation may be stored after new records, and a
        # consumer reads records again.
        clients = [] if self.safe else [*self.producers, *self.consumers]
        return str(self.rng.choice((*self.brokers, self._leader(), *clients, "c1")))

    def _partition(self) -> str:
        return f"t-{self.rng.randrange(self.partitions)}"

    def _leader(self) -> str:
        return f"leader({self._partition()})"

    def _nodes(self) -> list[str]:
        return [*self.brokers, "c1", *self.producers, *self.consumers]

    def _sides(self) -> Tree:
        if self.on_links:
            return {"between": self.rng.sample(self.brokers, 2)}
        item = self.rng.choice((*self.brokers, self._leader()))
        others = [node for node in self._nodes() if node != item]
        other = self.rng.choice((f"followers({self._partition()})", "c1", *others))
        return {"between": [item, other]}

    def _cut(self) -> Tree:
        return {**self._sides(), "direction": self.rng.choice(("both", "to", "from"))}

    def _slow(self) -> Tree:
        return {**self._sides(), "add": self.rng.choice(("50ms", "400ms", {"uniform": ["1ms", "2s"]}))}

    def _islands(self) -> list[list[str]]:
        nodes = self._nodes()
        island = self.rng.sample(nodes, self.rng.randint(1, len(nodes) - 1))
        return [island, [node for node in nodes if node not in island]]

    def _hold(self) -> Tree:
        item = self.rng.choice((*self.brokers, self._leader()))
        api = self.rng.choice(("Fetch", "Fetch", "AlterPartition", "Produce", "Metadata", "BrokerHeartbeat"))
        other = {"AlterPartition": "c1", "BrokerHeartbeat": "c1", "Metadata": "clients", "Produce": "clients"}.get(
            api, self.rng.choice((f"followers({self._partition()})", "brokers"))
        )
        sender, receiver = (item, other) if self.rng.random() < 0.5 else (other, item)
        if self.on_links and api == "Fetch":
            sender, receiver = self.rng.sample(self.brokers, 2)
        hold = {"from": sender, "to": receiver, "api": api}
        if self.rng.random() < 0.7:
            hold["part"] = self.rng.choice(("request", "response"))
        return hold

    def _elect(self) -> Any:
        unclean = not self.safe and self.rng.random() < 0.3
        choice: Tree = {"partition": self._partition(), "broker": self.rng.choice(self.brokers), "unclean": unclean}
        return self.rng.choice(("preferred", choice))

    def _slow_disk(self) -> Tree:
        slow: Tree = {"brokers": self._broker_or_leader()}
        if self.rng.random() < 0.7:
            slow["append"] = self.rng.choice(("50ms", "400ms", "2s"))
        else:
            slow["throughput"] = self.rng.choice(("5kB/s", "50kB/s"))
        return slow

    def _bump_clock(self) -> Tree:
        return {"brokers": self._broker_or_leader(), "by": self.rng.choice(("-60s", "-5s", "5s", "60s"))}

    def _reassign(self) -> Tree:
        """Return a reassignment of a partition to the same number of random brokers."""
        return {"partition": self._partition(), "to": self.rng.sample(self.brokers, self.replication_factor)}

    def _set_config(self) -> Tree:
        change: Tree = {"min.insync.replicas": self.rng.randint(1, self.replication_factor)}
        if self.rng.random() < 0.3:
            change = {"unclean.leader.election.enable": self.rng.random() < 0.5}
        return {"topic": "t", "config": change}

    def _seek(self) -> Tree:
        where = self.rng.choice((0, 3, "beginning", "end"))
        return {"consumer": self.rng.choice(self.consumers), "partition": self._partition(), "to": where}

    def _the_end(self, faults: list[Tree]) -> list[Tree]:
        """Return the steps that end all faults. Starts are repeated: a node that still shuts down refuses to start."""
        return [*MENDED, *repairs(faults)]


MENDED: tuple[Tree, ...] = ({"at": f"{HEALED_MS}ms", "heal": "all"}, {"at": f"{HEALED_MS}ms", "release": "all"})


def repairs(faults: list[Tree]) -> list[Tree]:
    steps: list[Tree] = [{"at": f"{HEALED_MS}ms", "resume": f"@{fault['as']}"} for fault in faults if "pause" in fault]
    down = [fault["as"] for fault in faults if any(verb in fault for verb in _DOWN)]
    for at_ms in STARTS_MS:
        steps += [{"at": f"{at_ms}ms", "start": f"@{label}"} for label in down]
    return steps


def _add_controllers(tree: Tree) -> None:
    """Use three controllers instead of one, and add faults of controllers with their own random stream."""
    rng = random.Random(f"{tree['seed']}/controllers")
    names = ["c1", "c2", "c3"]
    tree["cluster"]["controllers"] = names
    faults: list[Tree] = []
    for number in range(rng.randint(1, 4)):
        verb = rng.choice(("kill", "pause", "cut", "cut", "partition"))
        item = rng.choice((*names, "controller", "controller"))
        what: Any = item
        if verb == "cut":
            others = [name for name in names if name != item]
            what = {"between": [item, rng.choice((others, others, ["brokers"], others[:1]))]}
            what["direction"] = rng.choice(("both", "both", "to", "from"))
        elif verb == "partition":
            island = rng.sample([*names, *tree["cluster"]["brokers"]], rng.randint(1, 3))
            what = [island, [node for node in (*names, *tree["cluster"]["brokers"]) if node not in island]]
        label = f"controller-{verb}-{number}"
        step: Tree = {"at": f"{rng.randint(QUORUM_STANDS_MS, CHAOS_ENDS_MS)}ms", verb: what, "as": label}
        if rng.random() < 0.8:
            step["for"] = f"{rng.choice(LASTING_MS[1:])}ms"
        faults.append(step)
    for step in tree["timeline"]:  # The topics must exist first, and the controllers must elect a leader for that.
        at_ms = int(step["at"].removesuffix("ms"))
        if at_ms < QUORUM_STANDS_MS:
            step["at"] = f"{at_ms + QUORUM_STANDS_MS}ms"
    tree["timeline"] += [*faults, *repairs(faults)]


def _add_old_troubles(tree: Tree, rules: Rules, safe: bool) -> None:
    """Add faults that matter under old rules, with a probability of one half and their own random stream."""
    rng = random.Random(f"{tree['seed']}/troubles")
    if rng.random() < 0.5:
        begin_ms, end_ms = TROUBLES_MS
        steps = old_troubles(rng, tree, rules, safe=safe, begin_ms=begin_ms, end_ms=end_ms)
        tree["timeline"] += [*steps, *repairs(steps)]


def _add_elections(tree: Tree) -> None:
    """Add leader elections with their own random stream. They break no promise, so a safe schedule may have them."""
    rng = random.Random(f"{tree['seed']}/elections")
    begin_ms, end_ms = TROUBLES_MS
    steps = leaders_over_links(rng, tree, PROFILES[tree["profile"]], begin_ms=begin_ms, end_ms=end_ms)
    tree["timeline"] += steps
