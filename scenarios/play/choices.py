"""The menu of `highwater play`: the steps that a viewer can add for a broker, a link, a client or a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from replica.ids import OFFSETS_TOPIC, TopicPartition
from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario
from scenarios.language.verbs.every import step_of
from scenarios.language.write.lock import as_tree, dump
from scenarios.play.futures import load_possible, without_expectations
from scenarios.play.moments import Situation

Check = Callable[[Situation], str]
"""A function that returns why an entry is impossible or has no effect at a moment, "" if the entry can be used."""

NODES_MAX = 9
"""Largest number of brokers, and of clients, whose links and elections the menu offers."""
PARTITIONS_MAX = 20
DELAY = "200ms"


@dataclass(frozen=True, slots=True)
class Offer:
    """An entry of the menu.

    Attributes:
        target: the node or partition in whose menu the entry is, or `network`. With two names separated by a space,
            such as the ends of a link, the entry is in the menus of both.
        words: the step in the words of `highwater fault`, or `set` and `path=value` for a setting of the whole run.
        checks: functions that return a reason against the entry. The first reason is shown.
        sentence: description of the step or setting.
    """

    target: str
    label: str
    words: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    sentence: str = ""

    @property
    def is_setting(self) -> bool:
        return self.words[0] == "set"

    def why_not(self, moment: Situation) -> str:
        checks = self.checks if self.is_setting else (Situation.is_over, *self.checks)
        return next(filter(None, (check(moment) for check in checks)), "")

    def as_json(self, moment: Situation) -> list[Any]:
        return [self.target, self.label, self.words, self.sentence, self.why_not(moment)]


def _unless(reason: Callable[..., str], *about: object) -> Check:
    """Return a check that calls a method of Situation with the arguments `about`."""
    return lambda moment: reason(moment, *about)


def _always(reason: str) -> Check:
    return lambda _: reason


def step_of_words(scenario: Scenario, words: Sequence[str]) -> dict[str, Any]:
    """Convert the words of `highwater fault` to a step of the scenario language. Raises ShorthandError."""
    nodes = [*scenario.cluster.brokers, *scenario.cluster.controllers, *scenario.workloads]
    return step_of(list(words), nodes, None, None)


def choices_of(scenario: Scenario) -> list[Offer]:
    """Return all menu entries of a scenario, except for steps that the scenario language refuses."""
    plain = without_expectations(replace(scenario, timeline=()))
    found = [*_nodes(plain), *_clients(plain), *_links(plain), *_partitions(plain)]
    steps = [{"at": "1ms", **step_of_words(plain, choice.words)} for choice in found if not choice.is_setting]
    loaded, places = load_possible({**as_tree(plain), "timeline": steps}, "the choices")
    sentences = dict(zip(places, (step.payload.sentence() for step in loaded.timeline), strict=True))
    offers = iter(range(len(steps)))
    text = dump(plain)
    judged = [
        _judged(choice, text) if choice.is_setting else replace(choice, sentence=sentences.get(next(offers), ""))
        for choice in found
    ]
    return [choice for choice in judged if choice.sentence]


def _judged(choice: Offer, text: str) -> Offer:
    """Return the entry of a setting, with a reason against the setting if it makes the scenario invalid.

    Args:
        text: YAML of the scenario.
    """
    try:
        load_text(text, "the choices", [choice.words[1]])
    except ScenarioInvalid as invalid:
        why = next(diagnostic.title for diagnostic in invalid.diagnostics if diagnostic.severity == "error")
        return replace(choice, checks=(_always(why),))
    return choice


def _nodes(scenario: Scenario) -> Iterator[Offer]:
    brokers = list(scenario.cluster.brokers)
    for name in [*brokers, *scenario.cluster.controllers]:
        yield from _of_process(name)
        if name in brokers:
            is_down = _unless(Situation.is_down, name)
            if 1 < len(brokers) <= NODES_MAX:
                first = brokers.index(name)
                rolled = (*brokers[first:], *brokers[:first])
                checks = (_unless(Situation.is_down, *rolled), Situation.is_rolling)
                yield Offer(name, "Restart all brokers in turn, this one first", ("rolling_restart", *rolled), checks)
            yield Offer(name, "Power off", ("power_off", name), (is_down,))
            yield Offer(name, "Wipe its disk", ("wipe", name), (_unless(Situation.is_not_down, name),))
            yield Offer(name, f"Slow its disk by {DELAY}", ("slow_disk", name, DELAY), (is_down,))
            yield Offer(name, "Fail its disk", ("fail_disk", name), (is_down,))
            yield Offer(name, "Fill its disk", ("fill_disk", name), (is_down,))
            for when, what in (
                ("before", "Refuse its next Produce"),
                ("after", "Append its next Produce, then refuse it"),
            ):
                words = ("fail", "Produce", "NOT_LEADER_OR_FOLLOWER", name, when)
                yield Offer(name, what, words, (is_down,))


def _of_process(name: str) -> Iterator[Offer]:
    is_down = _unless(Situation.is_down, name)
    yield Offer(name, "Kill", ("kill", name), (is_down,))
    yield Offer(name, "Stop cleanly", ("stop", name), (is_down,))
    yield Offer(name, "Kill, and start again at once", ("restart", name), (is_down,))
    yield Offer(name, "Freeze", ("pause", name), (is_down, _unless(Situation.is_frozen, name)))
    yield Offer(name, "Unfreeze", ("resume", name), (is_down, _unless(Situation.is_not_frozen, name)))
    yield Offer(name, "Start", ("start", name), (_unless(Situation.is_not_down, name),))


def _links(scenario: Scenario) -> Iterator[Offer]:
    brokers = list(scenario.cluster.brokers)[:NODES_MAX]
    nodes = [*brokers, *scenario.cluster.controllers, *list(scenario.workloads)[:NODES_MAX]]
    for broker in brokers:
        for other in nodes[nodes.index(broker) + 1 :]:
            target = f"{broker} {other}"
            yield Offer(target, "Cut the link", ("cut", broker, other), (_unless(Situation.is_cut, broker, other),))
            yield Offer(target, f"Delay the link by {DELAY}", ("latency", broker, other, DELAY))
            for label, *link in _messages(scenario, broker, other):
                words, checks = ("hold", *link), (_unless(Situation.is_held, *link),)
                yield Offer(target, f"Hold {label}", words, checks)
                yield Offer(target, f"Hold {label}: only the next message", (*words, "1"), checks)
    heals, releases = ("cut", "partition", "latency", "bandwidth", "loss"), ("hold",)
    nothing = _unless(Situation.has_none_of, heals, "No link is cut or slowed down now.")
    yield Offer("network", "Restore all links", ("heal",), (nothing,))
    nothing = _unless(Situation.has_none_of, releases, "No messages are held now.")
    yield Offer("network", "Release all held messages", ("release",), (nothing,))


def _messages(scenario: Scenario, broker: str, other: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the messages between two nodes that can be held, as (description, sender, receiver, API, part).

    The part is `request` or `response`.
    """
    if other in scenario.cluster.brokers:
        yield f"the records from {broker} to {other}", broker, other, "Fetch", "response"
        yield f"the records from {other} to {broker}", other, broker, "Fetch", "response"
    elif other in scenario.cluster.controllers:
        yield f"the heartbeats of {broker}", broker, other, "BrokerHeartbeat", "request"
        yield f"the ISR changes that {broker} proposes", broker, other, "AlterPartition", "request"
    elif scenario.workloads[other].kind == "producer":
        yield f"the records from {other} to {broker}", other, broker, "Produce", "request"
        yield f"the acks from {broker} to {other}", broker, other, "Produce", "response"
    else:
        yield f"the records from {broker} to {other}", broker, other, "Fetch", "response"


def _clients(scenario: Scenario) -> Iterator[Offer]:
    for name, workload in scenario.workloads.items():
        if workload.kind == "producer":
            for acks in ("0", "1", "all"):
                settings = f"workloads.{name}.config.acks={acks}"
                same = (_always(f"{name} has acks={acks} already."),) if workload.config.get("acks") == acks else ()
                sentence = f"{name} has acks={acks} from the start of the run"
                yield Offer(name, f"acks={acks}", ("set", settings), same, sentence)
            yield Offer(name, "Send ten records", ("produce", name, "10"), (_unless(Situation.is_down, name),))
        yield from _of_process(name)
        if workload.config.get("transactional.id") and workload.kind == "producer":
            transactional_id = str(workload.config["transactional.id"])
            coordinated = (_unless(Situation.has_no_coordinator, transactional_id),)
            yield Offer(name, "Fence it", ("fence_producer", transactional_id), coordinated)
        if workload.kind == "transform":
            group = str(workload.config["group.id"])
            idle = (_unless(Situation.is_not_down, name), _unless(Situation.has_no_coordinator, group, OFFSETS_TOPIC))
            for topic in workload.topics:
                for where in ("earliest", "latest"):
                    words = ("reset_offsets", group, topic, where)
                    yield Offer(name, f"Set its group to the {where} offset of {topic}", words, idle)


def _partitions(scenario: Scenario) -> Iterator[Offer]:
    names = [name for topic in scenario.topics.values() for name in topic.topic_partitions]
    brokers = list(scenario.cluster.brokers)[:NODES_MAX]
    for name in names[:PARTITIONS_MAX]:
        replicas = scenario.topics[name.topic].replication_factor

        def about(reason: Callable[..., str], *more: object, name: TopicPartition = name) -> Check:
            return _unless(reason, name, *more)

        asks: tuple[Check, ...] = (about(Situation.is_absent), Situation.no_controller)
        for first, broker in enumerate(brokers):
            able = (*asks, about(Situation.cannot_elect, broker), _unless(Situation.is_down, broker))
            yield Offer(f"{name} {broker}", "Elect as the leader", ("elect", str(name), broker), able)
            to = tuple((brokers[first:] + brokers[:first])[:replicas])
            words = ("reassign", str(name), ",".join(to))
            yield Offer(str(name), f"Reassign to {words[-1]}", words, (*asks, about(Situation.is_placed, to)))
        needed = (*asks, about(Situation.has_leader), about(Situation.has_no_replica_up))
        yield Offer(str(name), "Elect uncleanly", ("elect", str(name), "unclean"), needed)
        led: tuple[Check, ...] = (about(Situation.is_absent), about(Situation.has_no_live_leader))
        some = (*led, about(Situation.has_nothing_committed))
        yield Offer(str(name), "Delete its records", ("delete_records", str(name)), some)
        if any(workload.config.get("transactional.id") for workload in scenario.workloads.values()):
            hangs = (*led, about(Situation.has_no_open_transaction))
            yield Offer(str(name), "Abort its oldest open transaction", ("abort_transaction", str(name)), hangs)
        if name.partition == 0:
            more = scenario.topics[name.topic].partitions + 1
            fewer = (*asks, _unless(Situation.has_partitions, name.topic, more))
            words = ("create_partitions", name.topic, str(more))
            yield Offer(str(name), "Add a partition to its topic", words, fewer)
        for minimum in range(1, replicas + 1):
            key = f"min.insync.replicas={minimum}"
            yield Offer(str(name), key, ("set_config", name.topic, key), (*asks, about(Situation.has_min_isr, minimum)))
