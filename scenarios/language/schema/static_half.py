"""The schema of what does not happen: sources, cluster, topics, network, workloads, expectations."""

from __future__ import annotations

from scenarios.language.expect import ANOMALIES, LATENCY_STATISTICS, RECORD_KINDS
from scenarios.language.parse.cluster import BROKERS_MAX, CONTROLLERS
from scenarios.language.parse.workloads import (
    COMMIT_ORDERS,
    CPU_OF_CONSUMER,
    CPU_OF_PRODUCER,
    CPU_OF_TRANSFORM,
    WORKLOADS_MAX,
)
from scenarios.language.spec import ABORT_EVERY_MAX, BATCH_MAX, PARTITIONS_MAX, TRANSACTION_RECORDS_MAX
from scenarios.language.steps import ANSWER_KINDS, CHOICES_MAX, QUESTION_CHARACTERS_MAX, NamedThing
from scenarios.language.values.links import (
    Schema,
    array,
    excluding,
    integer,
    mapping,
    one_of,
    pattern,
    ref,
    table,
    text,
)
from scenarios.language.verbs.cluster import SetQuota

NONE: Schema = {"const": "none"}
_ANSWERED = {
    NamedThing.PARTITION: ref("partitionName"),
    NamedThing.RECORD: pattern("[a-z]{1,8}[0-9]{1,7}"),
    NamedThing.RECORDS: {"enum": list(RECORD_KINDS)},
}
_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": QUESTION_CHARACTERS_MAX}
_ANSWER_FROM = {
    **mapping({**{kind: _ANSWERED[declared.names] for kind, declared in ANSWER_KINDS.items()}, "by": ref("time")}),
    "oneOf": [
        {"required": [kind], **({} if declared.has_moment else {"not": {"required": ["by"]}})}
        for kind, declared in ANSWER_KINDS.items()
    ],
}
QUESTION = {
    **mapping(
        {
            "at": ref("time"),
            "before": text("an event of the trace"),
            "ask": _TEXT,
            "choices": {**array(_TEXT, 2), "maxItems": CHOICES_MAX, "uniqueItems": True},
            "answer": _TEXT,
            "answer_from": _ANSWER_FROM,
            "because": _TEXT,
        },
        ["ask"],
    ),
    "allOf": [
        {"oneOf": [{"required": [when]} for when in ("at", "before")]},
        {"oneOf": [{"required": ["answer", "choices", "because"]}, {"required": ["answer_from"]}]},
    ],
    "dependentRequired": {"choices": ["answer"]},
}
SOURCE = mapping({"ref": text(), "url": text(), "recalled": {"type": "boolean"}}, ["ref"])

_CPU_TIMES = {name: ref("time") for name in ("request", "produce", "fetch", "replicate", "connection")}
_BROKER = mapping(
    {
        "rack": text(),
        "disk": ref("serviceTime"),
        "cpu": mapping({**_CPU_TIMES, "connections_per_poll": one_of({"const": "all"}, integer(1))}),
        "config": ref("brokerConfig"),
    },
    or_nothing=True,
)
CLUSTER = mapping(
    {
        "controllers": {**array(ref("slug"), min(CONTROLLERS)), "maxItems": max(CONTROLLERS)},
        "brokers": {**table(_BROKER, ref("slug")), "minProperties": 1, "maxProperties": BROKERS_MAX},
        "config": ref("brokerConfig"),
        "phases": {
            "description": "where in their periods the periodic checks fall: random (from the seed), or a time each",
            **one_of({"const": "random"}, table(ref("time"), ref("slug"))),
        },
        "heartbeats": {
            "description": "where in their interval the heartbeats of brokers fall: random, or a time each",
            **one_of({"const": "random"}, table(ref("time"), ref("slug"))),
        },
        "quotas": {"description": "of clients, from the start on", **array(SetQuota.declaration.schema())},
    },
    ["brokers"],
)
_ASSIGNMENT = {**table(array(text(), 1), {"pattern": "^[0-9]+$"}), "minProperties": 1}
TOPIC = mapping(
    {
        "partitions": one_of(_ASSIGNMENT, integer(1, PARTITIONS_MAX)),
        "replication_factor": integer(1, BROKERS_MAX),
        "config": ref("topicConfig"),
    },
    ["partitions"],
)
_LINK = mapping(
    {"between": ref("sides"), "latency": ref("delay"), "bandwidth": ref("bandwidth"), "loss": ref("share")},
    ["between"],
)
NETWORK = mapping(
    {
        "latency": ref("delay"),
        "jitter": ref("time"),
        "bandwidth": ref("bandwidth"),
        "card": ref("bandwidth"),
        "cards": table(ref("bandwidth")),
        "links": array(_LINK),
    }
)

_OF_ANY_CLIENT = {"topic": text(), "start": ref("time"), "stop": ref("time")}
_TRANSACTION = mapping(
    {"records": integer(1, TRANSACTION_RECORDS_MAX), "abort-every": integer(1, ABORT_EVERY_MAX)}, ["records"]
)


def _times(parts: tuple[str, ...]) -> Schema:
    return mapping({part: ref("time") for part in parts})


PRODUCER = mapping(
    {
        "kind": {"const": "producer"},
        **_OF_ANY_CLIENT,
        "rate": ref("rate"),
        "poisson": ref("rate"),
        "size": ref("size"),
        "batch": integer(1, BATCH_MAX),
        "prefix": pattern("[a-z]{1,8}"),
        "transaction": _TRANSACTION,
        "cpu": _times(CPU_OF_PRODUCER),
        "config": ref("producerConfig"),
    },
    ["kind", "topic"],
)
_INPUTS = {"topics": {**array(text()), "minItems": 1, "uniqueItems": True}}


def _reads_topics(fields: Schema) -> Schema:
    """One of `topic` and `topics`."""
    one_of_them = {"anyOf": [{"required": ["topic"]}, {"required": ["topics"]}]}
    return {**fields, **excluding("topic", ["topics"]), **one_of_them}


_CONSUMER_FIELDS = mapping(
    {
        "kind": {"const": "consumer"},
        **_OF_ANY_CLIENT,
        **_INPUTS,
        "count": integer(1, WORKLOADS_MAX),
        "cpu": _times(CPU_OF_CONSUMER),
        "process": ref("time"),
        "config": ref("consumerConfig"),
    },
    ["kind"],
)
CONSUMER = _reads_topics(_CONSUMER_FIELDS)
_TRANSFORM_FIELDS = mapping(
    {
        "kind": {"const": "transform"},
        **_OF_ANY_CLIENT,
        "topics": one_of(_INPUTS["topics"], mapping({"pattern": text()}, ["pattern"])),
        "to": text(),
        "batch": integer(1, BATCH_MAX),
        "prefix": pattern("[a-z]{1,8}"),
        "offsets": {"enum": list(COMMIT_ORDERS)},
        "flush": {"type": "boolean"},
        "group-metadata": {"enum": ["full", "id"]},
        "cpu": _times(CPU_OF_TRANSFORM),
        "process": ref("time"),
        "config": ref("transformConfig"),
    },
    ["kind", "to", "config"],
)
TRANSFORM = _reads_topics(_TRANSFORM_FIELDS)

_OF_ANOMALY = {"enum": list(ANOMALIES)}
_DIVERGED = mapping({"offsets": array(integer(0)), "replicas": array(text())}, ["offsets", "replicas"])
_BOUNDS = mapping({f"{word}_{end}": ref("time") for word in ("first", "last") for end in ("after", "before")})
_ERROR = one_of(NONE, integer(0), mapping({"count": ref("number"), **_BOUNDS["properties"]}))
_LATENCY = {
    **mapping({"between": ref("window"), "at_least": ref("time"), "at_most": ref("time")}),
    "minProperties": 1,
}
_MEASURED = {"anyOf": [{"enum": list(LATENCY_STATISTICS)}, pattern("[a-z]{1,8}[0-9]+")]}
_WINDOWS = one_of(NONE, array(mapping({"from": ref("time"), "to": ref("time"), "slack": ref("time")}, ["from", "to"])))
_EVENT = {
    "type": "object",
    "oneOf": [{"required": ["event"]}, {"required": ["never"]}],
    "properties": {
        "event": text(),
        "never": text(),
        "between": ref("window"),
        "after": ref("time"),
        "before": ref("time"),
        "count": ref("number"),
    },
}
EXPECT = mapping(
    {
        "verdict": one_of({"const": "ok"}, _OF_ANOMALY, array(_OF_ANOMALY, 1)),
        "records": ref("records"),
        "logs": ref("logs"),
        "diverged": one_of(NONE, table(_DIVERGED, ref("partitionName"))),
        "state": ref("state"),
        "events": array(_EVENT),
        "errors": table(one_of(NONE, table(_ERROR))),
        "latency": table(table(_LATENCY, _MEASURED)),
        "unavailable": table(mapping({"writes": _WINDOWS, "reads": _WINDOWS}), ref("partitionName")),
    }
)
