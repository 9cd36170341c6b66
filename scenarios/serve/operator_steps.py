"""A step that an operator gives to a running cluster, read by the language's own rules against what is there now."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from scenarios.language.diagnostics import Diagnostic, Place, Problems, ScenarioInvalid, SourceText, TooManyProblems
from scenarios.language.parse.steps import read_labels, read_timeline
from scenarios.language.steps import Step
from scenarios.language.values.reading import Reader
from scenarios.language.values.scope import Scope
from scenarios.language.values.yaml_source import Mapping, Scalar, Sequence, parse
from scenarios.run.runner import ScenarioRun
from scenarios.serve.cluster_state import still_holds

NAME = "the step"


def read_operator_step(text: str, run: ScenarioRun, index: int) -> Step:
    """One step as YAML; without `at` and `when` it means now. index: its place among all steps of the run

    raises: ScenarioInvalid
    """
    problems, step = Problems(), None
    with suppress(TooManyProblems):
        step = _read(text, run, index, problems)
    if step is None or problems.any_error:
        raise ScenarioInvalid(NAME, problems.sorted())
    return step


def _read(text: str, run: ScenarioRun, index: int, problems: Problems) -> Step | None:
    source = SourceText.of(NAME, text)
    node = parse(text, source, problems)
    if not isinstance(node, Mapping):
        if not problems.found:
            title = "a step is a mapping such as {kill: b1}"
            problems.add(Diagnostic(code="E111", title=title, place=Place(source, 0, 0)))
        return None
    scope = _scope_of(run, Reader(problems))
    if "at" not in node.entries and "when" not in node.entries:
        now = Scalar(node.place, "0s")
        node = Mapping(node.place, {"at": (Scalar(node.place, "at"), now), **node.entries})
    # Its place in the list is its number: the steps before it are over.
    line = Sequence(node.place, [node])
    read_labels(scope, line, "timeline")
    for label, verb in _names_of_the_past(run).items():  # A fault that has ended leaves its name to another one.
        scope.labels.setdefault(label, verb)
    steps = read_timeline(scope, line, "timeline")
    if not steps:
        return None
    (step,) = steps
    return Step(
        index=index,
        trigger=step.trigger,
        payload=step.payload,
        label=step.label,
        every_us=step.every_us,
        times=step.times,
        for_us=step.for_us,
    )


def _scope_of(run: ScenarioRun, reader: Reader) -> Scope:
    """The names of the cluster as it is: topics may have come since it began. Names of faults in force are taken."""
    scenario, view = run.scenario, run.view
    cluster = scenario.cluster
    scope = Scope(reader, brokers=list(cluster.brokers), controllers=list(cluster.controllers))
    scope.log_dirs.update({name: cluster.log_dirs(name) for name in cluster.brokers})
    scope.racks.extend(dict.fromkeys(cluster.racks.values()))
    scope.outsiders.extend(run.cluster.fabric.outsiders)
    for partition in sorted(view.partitions):
        scope.topics[partition.topic] = max(scope.topics.get(partition.topic, 0), partition.partition + 1)
    scope.producers.update({workload.name: workload.topic for workload in scenario.producers})
    scope.consumers.update({workload.name: workload.topics for workload in scenario.consumers})
    scope.workloads = scenario.workloads
    scope.prefixes.update({workload.prefix: workload.name for workload in scenario.producers})
    run.timeline.forget_unless(partial(still_holds, run))
    scope.labels.update({fault.step.name: fault.step.verb for fault in run.timeline.in_force()})
    return scope


def _names_of_the_past(run: ScenarioRun) -> dict[str, str]:
    """The steps to which `"@name"` may refer although they are over."""
    verbs = {step.label: step.verb for step in run.scenario.timeline if step.label is not None}
    return {name: verbs.get(name, "") for name in run.captured}
