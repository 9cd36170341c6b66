"""Topics that steps make and delete: which are there when a run begins, and steps that cannot do what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scenarios.language.parse.process_order import path_of
from scenarios.language.spec import Scenario, TopicSpec
from scenarios.language.steps import At, Step
from scenarios.language.values.reading import Reader
from scenarios.language.verbs.clients import Produce
from scenarios.language.verbs.cluster import MakeTopic, RemoveTopic


def marked(topics: Mapping[str, TopicSpec], timeline: Sequence[Step]) -> dict[str, TopicSpec]:
    """Those whose first step makes them are not there before it."""
    first: dict[str, bool] = {}
    for step in _in_time(timeline):
        if isinstance(step.payload, MakeTopic | RemoveTopic):
            first.setdefault(step.payload.topic, isinstance(step.payload, MakeTopic))
    return {name: replace(topic, is_made_by_step=first.get(name, False)) for name, topic in topics.items()}


def report_topics(scenario: Scenario, reader: Reader) -> None:
    """E130 for a topic that is made while it is there, or deleted while it is not; silent where a step that deletes it
    waits for a state. Of two steps that wait for one, either may never come."""
    for topic in scenario.topics.values():
        steps = [step for step in _in_time(scenario.timeline) if _of(step, topic.name, MakeTopic, RemoveTopic)]
        at_times = [step for step in steps if isinstance(step.trigger, At)]
        if not any(isinstance(step.payload, RemoveTopic) for step in steps if step not in at_times):
            _report(topic, at_times, reader)


def _report(topic: TopicSpec, steps: Sequence[Step], reader: Reader) -> None:
    before: Step | None = None
    for step in steps:
        makes = isinstance(step.payload, MakeTopic)
        who = "its first time" if step.times > 1 else None
        if before is not None and isinstance(before.payload, MakeTopic) == makes:
            who = f"step {before.index + 1}"
        if who is not None:
            verb, done = ("make", "made") if makes else ("delete", "deleted")
            title = f"step {step.index + 1} would {verb} the topic `{topic.name}`, which {who} has {done}"
            path = f"{path_of(step)}.{step.verb}"
            reader.error("E130", title, reader.places.get(path) or reader.places[path_of(step)], path=path)
        before = step


def sent_too_late(scenario: Scenario) -> list[tuple[Step, Step]]:
    """`produce` steps to a topic that a step before them has deleted, and that none has made again; each with the
    step that deletes."""
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
    """A producer waits for the topic until `delivery.timeout.ms`."""
    assert isinstance(deletion.payload, RemoveTopic)
    steps = _in_time(scenario.timeline)
    return any(_of(step, deletion.payload.topic, MakeTopic) for step in steps[steps.index(deletion) :])


def _of(step: Step, topic: str, *kinds: type[MakeTopic | RemoveTopic]) -> bool:
    return isinstance(step.payload, kinds) and step.payload.topic == topic


def _in_time(timeline: Sequence[Step]) -> list[Step]:
    """A step that waits for a state stands behind the one before it in the file, which arms it."""
    times: list[int] = []
    for step in timeline:
        times.append(step.trigger.at_us if isinstance(step.trigger, At) else times[-1] if times else 0)
    return [step for _, step in sorted(zip(times, timeline, strict=True), key=lambda pair: pair[0])]
