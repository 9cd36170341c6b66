"""Find steps that cannot work or change nothing, by tracking which processes are up and which topics exist.

A run is not needed for this, but some files leave open which node a name such as `"@victim"`, chosen by an earlier
step, stands for. Such a name is tracked as a node of its own. It may be the same node as b1, so a step on either makes
the state of the other unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum

from scenarios.language.selectors import FUNCTIONS_OF_PARTITION, Selector, Term, text_of
from scenarios.language.spec import Scenario, TopicSpec
from scenarios.language.steps import At, Payload, Step
from scenarios.language.values.reading import Reader
from scenarios.language.verbs.clients import Produce
from scenarios.language.verbs.cluster import Elect, MakeTopic, Reassign, RemoveTopic
from scenarios.language.verbs.disk import FailDisk, FillDisk, Tear
from scenarios.language.verbs.process import Kill, PowerOff, Restart, RollingRestart, Start, Stop, Wipe

_OF_PROCESSES = (Stop, Kill, PowerOff, Start, Restart, RollingRestart, Wipe, Tear)
_MAY_MOVE_LEADERS = (Start, Restart, RollingRestart, Stop, Elect, Reassign)


class _Sure(Enum):
    UP = "up"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Needless:
    """A step that changes nothing, and the reason, such as `would kill b1, which is down since step 1`."""

    step: Step
    why: str


def path_of(step: Step) -> str:
    return f"timeline.{step.index + 1}"


def names_of(payload: Payload) -> tuple[str, ...]:
    """Return the nodes of a step such as `kill` or `tear` if it names each literally; empty for other selectors."""
    nodes = _nodes(payload)
    return () if nodes is None else nodes.plain_names or ()


def report_unchosen(scenario: Scenario, reader: Reader) -> None:
    """Report E133 for a step that uses `@name` before the step with `as: name` has chosen the nodes."""
    choosers = {step.label: step for step in scenario.timeline if step.label is not None}
    for step in scenario.timeline:
        for name in _captured(step.payload):
            chooser = choosers.get(name)
            if chooser is None or not isinstance(step.trigger, At) or not isinstance(chooser.trigger, At):
                continue
            if (step.trigger.at_us, step.index) <= (chooser.trigger.at_us, chooser.index):
                path = f"{path_of(step)}.{step.verb}"
                title = f"step {step.index + 1} uses `@{name}` before step {chooser.index + 1} chooses its nodes"
                label = f"chosen at {chooser.trigger.at_us / 1e6:g} s, used at {step.trigger.at_us / 1e6:g} s"
                place = reader.places.get(path) or reader.places[path_of(step)]
                reader.error("E133", title, place, path=path, label=label)
                break


def _captured(payload: Payload) -> Iterator[str]:
    values = [getattr(payload, field.name) for field in fields(payload)]  # type: ignore[arg-type]
    for value in values:
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Selector):
                yield from (term.names[0] for term in part.terms if term.kind == "captured")


def report_order(scenario: Scenario, reader: Reader) -> list[Needless]:
    """Report E130 for starting a node that is not down, and for `wipe` or `tear` of a node that is running.

    Nothing is reported if the state of the node depends on the run.

    Returns:
        The steps that stop, kill or rolling-restart a node which is down already.
    """
    steps = [step for step in scenario.timeline if isinstance(step.payload, _OF_PROCESSES)]
    if any(not isinstance(step.trigger, At) or step.times > 1 for step in steps) or any(
        isinstance(step.payload, (FillDisk, FailDisk)) for step in scenario.timeline
    ):
        return []  # A step waits or repeats, or a failed disk halts a broker: times depend on the run.
    order = _Order(scenario, reader)
    turns: list[tuple[int, int, Step, bool]] = []
    for step in scenario.timeline:
        of_processes = isinstance(step.payload, _OF_PROCESSES)
        if isinstance(step.trigger, At) and (of_processes or step.label is not None):
            turns.append((step.trigger.at_us, step.index, step, False))
            if of_processes and step.for_us is not None:
                turns.append((step.trigger.at_us + step.for_us, len(scenario.timeline) + step.index, step, True))
    for *_, step, is_end in sorted(turns, key=lambda turn: turn[:2]):
        order.play(step, is_end=is_end)
    return order.needless


def kills_of_a_dead_leader(scenario: Scenario) -> list[Needless]:
    """Return the steps that kill a leader which an earlier step killed.

    A dead broker stays `leader(t-0)` until its session ends and the controller elects another broker.
    """
    config = scenario.cluster.controller_config(scenario.rules.release)
    in_registry = scenario.rules.membership == "zk-session"
    session_us = 1000 * (config.zookeeper_session_timeout_ms if in_registry else config.broker_session_timeout_ms)
    surely_us = session_us * 2 // 3  # The session counts from the last heartbeat, which came before the kill.
    found: list[Needless] = []
    dead: dict[Term, Step] = {}
    for step in sorted(scenario.timeline, key=lambda step: (_at_us(step), step.index)):
        if isinstance(step.payload, (Kill, PowerOff)) and step.for_us is None:
            for term in step.payload.nodes.terms if isinstance(step.trigger, At) else ():
                before = dead.get(term)
                if before is not None and _at_us(step) - _at_us(before) <= surely_us:
                    ago = f"{(_at_us(step) - _at_us(before)) / 1e6:g} s after step {before.index + 1}"
                    why = f"would {step.verb} the same broker again {ago}: it stays {text_of(term)} until its session"
                    found.append(Needless(step, f"{why} of {session_us / 1e6:g} s ends"))
                elif term.kind == "leader":
                    dead[term] = step
        elif isinstance(step.payload, _MAY_MOVE_LEADERS) or step.for_us is not None:
            dead.clear()  # Another broker may lead now.
    return found


def _at_us(step: Step) -> int:
    return step.trigger.at_us if isinstance(step.trigger, At) else 0


class _Order:
    """What is known of each node's state (up, down or unknown) while steps are applied in order of time.

    An `@name` whose nodes are unknown is tracked as a node of that name.
    """

    def __init__(self, scenario: Scenario, reader: Reader) -> None:
        self.needless: list[Needless] = []
        self._scenario = scenario
        self._reader = reader
        cluster = scenario.cluster
        nodes = (*cluster.brokers, *cluster.controllers, *scenario.workloads)
        self._known: dict[str, _Sure | Step] = dict.fromkeys(nodes, _Sure.UP)  # or the step that took it down
        self._fell: dict[str, None] = {}
        self._meanings: dict[str, tuple[str, ...]] = {}

    def play(self, step: Step, *, is_end: bool) -> None:
        groups = self._groups(step)
        match step.payload:
            case _ if is_end:  # The end of `for`: the nodes are up, even if they came back earlier.
                self._rise([self._meanings.get(step.label)] if step.label is not None else groups)
            case Stop() | Kill() | PowerOff():
                self._fall(step, groups)
            case Start():
                self._must_be_down(step, "is not down", "no earlier step stops the node")
                self._rise(groups)
            case Restart():
                self._rise(groups)
            case RollingRestart():
                self._roll(step, groups)
            case Wipe() | Tear():
                self._must_be_down(step, "is running", "first stop, kill or power_off the broker")
        if step.label is not None and not is_end:
            self._choose(step, groups)

    def _groups(self, step: Step) -> list[tuple[str, ...] | None]:
        """Return the nodes that each term of the step's selector matches; None for a term that depends on the run."""
        nodes = _nodes(step.payload)
        return [None] if nodes is None else [self._names(term) for term in nodes.terms]

    def _names(self, term: Term) -> tuple[str, ...] | None:
        brokers = tuple(self._scenario.cluster.brokers)
        match term.kind:
            case "node":
                return term.names
            case "captured":
                return self._meanings.get(term.names[0])
            case "brokers":
                return brokers
            case "clients":
                return tuple(self._scenario.workloads)
            case "others":
                return tuple(name for name in brokers if name not in term.names)
            case "rack":
                racks = self._scenario.cluster.racks
                return tuple(name for name in brokers if racks.get(name) == term.names[0])
        return None

    def _choose(self, step: Step, groups: list[tuple[str, ...] | None]) -> None:
        """Store the nodes that the step's `@name` stands for. If they are unknown, track the name like a node."""
        assert step.label is not None
        if None not in groups:
            self._meanings[step.label] = tuple(name for names in groups for name in names or ())
            return
        alias = f"@{step.label}"
        takes_down = isinstance(step.payload, (Stop, Kill, PowerOff))
        all_up = all(known is _Sure.UP for known in self._known.values())
        self._known[alias] = step if takes_down else _Sure.UP if all_up else _Sure.UNKNOWN
        self._fell.update({alias: None} if takes_down else {})
        self._meanings[step.label] = (alias,)

    def _fall(self, step: Step, groups: list[tuple[str, ...] | None]) -> None:
        for names in groups:
            before = [self._known[name] for name in names or ()]
            # A power failure after a kill loses the page cache as well; a process that is shutting down can be killed.
            down = [item for item in before if isinstance(item, Step) and not isinstance(item.payload, Stop)]
            if down and len(down) == len(before) and not isinstance(step.payload, PowerOff):
                who = ", ".join(names or ())
                since = max(item.index for item in down) + 1
                verb = "has" if len(down) == 1 else "have"
                self.needless.append(
                    Needless(step, f"would {step.verb} {who}, which {verb} been down since step {since}")
                )
                continue
            self._forget(names, lambda known: known is _Sure.UP)
            self._known.update(dict.fromkeys(names or (), step))
            self._fell.update(dict.fromkeys(names or ()))

    def _roll(self, step: Step, groups: list[tuple[str, ...] | None]) -> None:
        """Apply a rolling restart. Report brokers that were down before; afterwards the state of each is unknown."""
        for name in (name for names in groups for name in names or ()):
            known = self._known[name]
            if isinstance(known, Step):
                why = f"would restart nothing: {name} has been down since step {known.index + 1}"
                self.needless.append(Needless(step, why))
        for names in groups:
            self._forget(names, lambda known: known is _Sure.UP)
            self._known.update(dict.fromkeys(names or (), _Sure.UNKNOWN))

    def _rise(self, groups: list[tuple[str, ...] | None]) -> None:
        for names in groups:
            self._forget(names, lambda known: isinstance(known, Step))
            self._known.update(dict.fromkeys(names or (), _Sure.UP))

    def _forget(self, names: tuple[str, ...] | None, touched: Callable[[_Sure | Step], bool]) -> None:
        """Mark the state of nodes that a step may have changed as unknown.

        A name such as `@victim` may stand for any of the nodes.

        Args:
            names: the names that the step concerns; None if they depend on the run.
            touched: returns whether the step would change a node that has this state.
        """
        vague = names is None or any(name.startswith("@") for name in names)
        for name, known in self._known.items():
            if name not in (names or ()) and (vague or name.startswith("@")) and touched(known):
                self._known[name] = _Sure.UNKNOWN

    def _must_be_down(self, step: Step, otherwise: str, remedy: str) -> None:
        path = f"{path_of(step)}.{step.verb}"
        place, nodes = self._reader.places.get(path), _nodes(step.payload)
        if nodes is None or place is None:
            return
        for term in nodes.terms:
            names = self._names(term) or ()
            up = bool(names) and all(self._known[name] is _Sure.UP for name in names)
            never = not any(name in self._fell for name in names)
            # An `@name` that was down once may be started again as a precaution.
            if up and (term.kind == "node" or (term.kind == "captured" and never)):
                later = _later(self._scenario, names[0])
                self._reader.error(
                    "E130",
                    f"step {step.index + 1} would {step.verb} {text_of(term)}, which {otherwise} at that time",
                    place,
                    path=path,
                    label="steps are ordered by time, not by position" if later else remedy,
                    notes=later,
                )


def _later(scenario: Scenario, node: str) -> list[str]:
    """Return a note on the first step that takes the node down, as the steps may be in the wrong order; else empty."""
    return [
        f"help: {node} goes down in step {step.index + 1}, at {step.trigger.at_us / 1e6:g} s"
        for step in scenario.timeline
        if isinstance(step.payload, (Stop, Kill, PowerOff))
        and isinstance(step.trigger, At)
        and node in names_of(step.payload)
    ][:1]


def _nodes(payload: Payload) -> Selector | None:
    attribute = {Tear: "broker", RollingRestart: "brokers"}.get(type(payload), "nodes")
    nodes = getattr(payload, attribute, None)
    return nodes if isinstance(nodes, Selector) else None


def restarts_one_after_another(scenario: Scenario) -> Step | None:
    """Return the first step with which `restart` has restarted more than one broker; None if no step does.

    Brokers that depend on the run count as different if their selectors differ.
    """
    brokers: dict[str, None] = {}
    for step in _in_time(scenario.timeline):
        for term in step.payload.nodes.terms if isinstance(step.payload, Restart) else ():
            brokers.update(dict.fromkeys(_brokers_of(term, scenario)))
            moves = term.kind in FUNCTIONS_OF_PARTITION and step.times > 1  # Another broker may lead each time.
            if len(brokers) > 1 or moves:
                return step
    return None


def _brokers_of(term: Term, scenario: Scenario) -> tuple[str, ...]:
    cluster = scenario.cluster
    match term.kind:
        case "node":
            return tuple(name for name in term.names if name in cluster.brokers)
        case "brokers":
            return tuple(cluster.brokers)
        case "others":
            return tuple(name for name in cluster.brokers if name not in term.names)
        case "rack":
            return tuple(name for name in cluster.brokers if cluster.racks.get(name) == term.names[0])
        case "followers" | "isr" | "replicas" if term.partition is not None:
            topic = scenario.topics.get(term.partition.topic)
            count = 3 if topic is None else topic.replication_factor
            return tuple(f"{text_of(term)} {number}" for number in range(count - (term.kind == "followers")))
        case "leader" | "follower" | "coordinator":
            return (text_of(term),)
    return ()  # Clients, controllers and `@name` selectors.


# ---------------------------------------------------------------------------------------------------------- topic order
#
# Topics that steps create and delete: which of them exist when a run begins, and which steps must fail.


def marked(topics: Mapping[str, TopicSpec], timeline: Sequence[Step]) -> dict[str, TopicSpec]:
    """Return the topics, with `is_made_by_step` set for each that the timeline creates before it deletes it."""
    first: dict[str, bool] = {}
    for step in _in_time(timeline):
        if isinstance(step.payload, MakeTopic | RemoveTopic):
            first.setdefault(step.payload.topic, isinstance(step.payload, MakeTopic))
    return {name: replace(topic, is_made_by_step=first.get(name, False)) for name, topic in topics.items()}


def report_topics(scenario: Scenario, reader: Reader) -> None:
    """Report E130 for creating a topic that exists, and for deleting a topic that does not exist.

    A topic is skipped if a step that deletes it waits for a condition, since its time depends on the run.
    """
    for topic in scenario.topics.values():
        steps = [step for step in _in_time(scenario.timeline) if _is_of_topic(step, topic.name, MakeTopic, RemoveTopic)]
        at_times = [step for step in steps if isinstance(step.trigger, At)]
        if not any(isinstance(step.payload, RemoveTopic) for step in steps if step not in at_times):
            _report(topic, at_times, reader)


def _report(topic: TopicSpec, steps: Sequence[Step], reader: Reader) -> None:
    before: Step | None = None
    for step in steps:
        makes = isinstance(step.payload, MakeTopic)
        who = "its first firing" if step.times > 1 else None
        if before is not None and isinstance(before.payload, MakeTopic) == makes:
            who = f"step {before.index + 1}"
        if who is not None:
            verb, done = ("create", "created") if makes else ("delete", "deleted")
            title = f"step {step.index + 1} would {verb} the topic `{topic.name}`, which {who} has {done}"
            path = f"{path_of(step)}.{step.verb}"
            reader.error("E130", title, reader.places.get(path) or reader.places[path_of(step)], path=path)
        before = step


def sent_too_late(scenario: Scenario) -> list[tuple[Step, Step]]:
    """Return (`produce` step, deleting step) for each step that sends to a topic after it was deleted for good."""
    found: list[tuple[Step, Step]] = []
    topic_of = {producer.name: producer.topic for producer in scenario.producers}
    deleted: dict[str, Step] = {}
    for step in _in_time(scenario.timeline):
        match step.payload:
            case RemoveTopic(topic):
                deleted[topic] = step
            case MakeTopic(topic):
                deleted.pop(topic, None)
            case Produce() as payload:
                by = deleted.get(topic_of.get(payload.producer, ""))
                if by is not None and not _is_made_later(scenario, by):
                    found.append((step, by))
    return found


def _is_made_later(scenario: Scenario, deletion: Step) -> bool:
    """Return True if a later step creates the topic again. A producer may wait for that (`delivery.timeout.ms`)."""
    assert isinstance(deletion.payload, RemoveTopic)
    steps = _in_time(scenario.timeline)
    return any(_is_of_topic(step, deletion.payload.topic, MakeTopic) for step in steps[steps.index(deletion) :])


def _is_of_topic(step: Step, topic: str, *kinds: type[MakeTopic | RemoveTopic]) -> bool:
    return isinstance(step.payload, kinds) and step.payload.topic == topic


def _in_time(timeline: Sequence[Step]) -> list[Step]:
    """Return the steps ordered by time. A step that waits for a condition keeps its place after the step before it."""
    times: list[int] = []
    for step in timeline:
        times.append(step.trigger.at_us if isinstance(step.trigger, At) else times[-1] if times else 0)
    return [step for _, step in sorted(zip(times, timeline, strict=True), key=lambda pair: pair[0])]
