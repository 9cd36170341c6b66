"""Readers of the static parts of a scenario: era, cluster, topics and network."""

from __future__ import annotations

import re
from collections.abc import Mapping as MappingType
from collections.abc import Sequence
from itertools import count

from cluster.config import BrokerConfig
from cluster.known_keys import BROKER_KEYS, BROKER_RACK, TOPIC_KEYS
from cluster.server.request_handlers import CONNECTION_QUEUE_SIZE, CpuTimes
from replica.config import BROKER_KEY_OF_TOPIC_KEY, Config, ConfigError, TopicConfig
from replica.log.files.disk import ServiceTime
from replica.rules import DEFAULT_PROFILE, PROFILES, KafkaRelease, Rules, Switch, contradiction
from scenarios.language.diagnostics import Place, did_you_mean
from scenarios.language.selectors import NO_NODES
from scenarios.language.spec import (
    DEFAULT_LATENCY,
    PARTITIONS_MAX,
    PHASES_END_US,
    BrokerSpec,
    ClientQuota,
    ClusterSpec,
    LinkSpec,
    NetworkSpec,
    Phases,
    TopicSpec,
    log_dirs_of,
)
from scenarios.language.steps import Delay
from scenarios.language.values.links import SERVICE_TIME_KEYS, read_delay, read_service_time, read_sides
from scenarios.language.values.reading import SLUG, Fields, Reader, plain_text
from scenarios.language.values.scope import ANY_NODE, BROKER, CONTROLLER, Scope
from scenarios.language.values.synonyms import CLUSTER_FIELDS, NETWORK_FIELDS, inside_cluster, own_config
from scenarios.language.values.yaml_source import Mapping, Node, Scalar, described
from scenarios.language.values.yaml_source import Sequence as SequenceNode
from scenarios.language.verbs.cluster import SetQuota

BROKERS_MAX = 31
LOG_DIRS_MAX = 8
CPU_KEYS = ("request", "produce", "fetch", "replicate", "connection", "connections_per_poll")

CONTROLLERS = (1, 3, 5)
CONTROLLERS_MAX = 7
VOTERS_CHANGE_SINCE = KafkaRelease(3, 9)
RESERVED_NAMES = ("all", "none", "nobody", "preferred", "controller", "brokers", "clients")

_NAMES_OF_BROKERS = {
    **BROKER_KEY_OF_TOPIC_KEY,
    "log.message.timestamp.difference.max.ms": "log.message.timestamp.before.max.ms",  # KIP-937
}
_NAMES_OF_TOPICS = {
    **{broker_key: key for key, broker_key in BROKER_KEY_OF_TOPIC_KEY.items()},
    "log.retention.hours": "retention.ms",
    "log.retention.minutes": "retention.ms",
    "log.roll.hours": "segment.ms",
    "message.timestamp.difference.max.ms": "message.timestamp.before.max.ms",
}

_RELEASE = re.compile(r"(?:kafka)?[- ]?v?([0-9]{1,3})\.([0-9]{1,3})(?:\.[0-9x]{1,3}){0,2}", re.IGNORECASE)
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def read_era(reader: Reader, fields: Fields) -> tuple[str, Rules]:
    """Read `profile` and `protocol`. Return the name of the era, and its rules with the changes of the file applied."""
    profile = fields.read("profile", lambda n, p: _read_profile(reader, n, p), DEFAULT_PROFILE)
    changed = fields.read("protocol", lambda n, p: _read_switches(reader, n, p), {})
    rules = PROFILES[profile].changed(changed)
    excluded = contradiction(rules)
    if excluded is not None:
        found = fields.get("protocol")
        place = fields.place if found is None else found[0].place
        reader.error("E127", excluded.why, place, path="protocol", label=excluded.remedy)
    return profile, rules


def _read_profile(reader: Reader, node: Node, path: str) -> str:
    """Read the name of an era, such as `kafka-3.9`.

    A release without an era of its own is an error that names the eras before and after it. The era with the most
    similar name is not suggested, because its rules may be very different.
    """
    release = _RELEASE.fullmatch(node.text) if isinstance(node, Scalar) and node.text not in PROFILES else None
    if release is None:
        return reader.choice(node, path, "`profile`", tuple(PROFILES))
    value = KafkaRelease(int(release[1]), int(release[2]))
    before = [name for name, rules in PROFILES.items() if rules.release < value]
    after = [name for name, rules in PROFILES.items() if rules.release > value]
    same = value.era if len(before) + len(after) < len(PROFILES) else None
    notes = [f"help: one of {', '.join(PROFILES)}"]
    if same is not None:
        label = ""
    elif before and after:
        label = f"choose the era before or after this release: `{before[-1]}` or `{after[0]}`"
        rules = (f"`{switch}`: {Rules.since(switch)}" for switch in PROFILES[after[0]].unlike(PROFILES[before[-1]]))
        notes.append(f"help: these two eras differ in {'; '.join(rules)}")
    else:
        label = f"the newest era is `{before[-1]}`" if before else f"the oldest era is `{after[0]}`"
    title = f"`profile` cannot be `{release[0]}`"
    reader.error("E110", title, node.place, path=path, suggestion=same, label=label, notes=notes)
    return DEFAULT_PROFILE


def _read_switches(reader: Reader, node: Node, path: str) -> dict[str, Switch]:
    switches = Rules.switches()
    fields = reader.fields(node, path, "`protocol`", tuple(switches))
    changed: dict[str, Switch] = {}
    for switch, (_, choices) in switches.items():
        found = fields.get(switch)
        if found is None:
            continue
        value = reader.choice(*found, f"`{switch}`", choices) if choices else reader.boolean(*found, f"`{switch}`")
        if isinstance(found[0], Scalar) and found[0].text in (choices or ("true", "false")):
            changed[switch] = value
    return changed


# ------------------------------------------------------------------------------------------------------------- nodes


def new_node(scope: Scope, name: str, node: Scalar, path: str, kind: str) -> bool:
    """Return True if `name` can be the name of a new broker, controller or client. Report an error if not."""
    if not scope.reader.check_slug(name, node.place, path, f"the name of a {kind}"):
        scope.refused.append(name)
        return False
    if name in RESERVED_NAMES:
        scope.refused.append(name)
        scope.reader.error("E113", f"`{name}` is a reserved word and cannot be a name", node.place, path=path)
        return False
    if name in scope.nodes:
        unnamed = f"help: no controller is named, so it is called `{name}`; name it with `controllers: [NAME]`"
        scope.reader.error(
            "E134",
            f"the name `{name}` is already used: all nodes and clients need different names",
            node.place,
            path=path,
            notes=[unnamed] if name == scope.unnamed_controller else [],
        )
        return False
    return True


def read_cluster(scope: Scope, node: Node, path: str, rules: Rules, beside: tuple[str, ...]) -> ClusterSpec:
    """Read the `cluster` block.

    Args:
        beside: names of the top-level fields, for errors about a field in the wrong block.
    """
    reader = scope.reader
    fields = reader.fields(
        node, path, "`cluster`", CLUSTER_FIELDS, {"brokers": "{b1: {}}"}, elsewhere=inside_cluster(beside)
    )
    config, common_rack = _read_config(scope, fields)
    found = fields.get("brokers")
    brokers = {} if found is None else _read_brokers(scope, *found, common_rack)
    controllers: list[str] = []
    found = fields.get("controllers")
    if found is not None:
        controllers = _read_controllers(scope, *found, rules, of_voters="initial_controllers" not in fields)
    else:
        controllers = [_unnamed_controller(scope.brokers)]
        scope.unnamed_controller = controllers[0]
    scope.controllers = controllers
    initial = fields.read("initial_controllers", lambda n, p: _read_initial_controllers(scope, n, p, rules), ())
    for name, broker in brokers.items():
        _read_log_dirs(scope, name, {**config, **broker.config}, f"{path}.brokers.{name}", fields.place)
        _check_whole(
            reader, f"{path}.brokers.{name}.config", BrokerConfig, {**config, **broker.config}, f"{path}.config"
        )
    has_quorum = rules.membership != "zk-session"
    checking = ANY_NODE if has_quorum else BROKER
    phases = fields.read("phases", lambda n, p: _read_phases(scope, n, p, "phases", checking), {})
    heartbeats = fields.read("heartbeats", lambda n, p: _read_phases(scope, n, p, "heartbeats", BROKER), {})
    quotas = fields.read("quotas", lambda n, p: _read_quotas(scope, n, p), ())
    for name, value, title in (
        ("heartbeats", heartbeats, "brokers send no heartbeats in the ZooKeeper era"),
        ("quotas", quotas, "quotas of clients are not yet supported in the ZooKeeper era"),
    ):
        if value and not has_quorum:
            label = f"`{name}` needs `membership: registration`"
            reader.error("E120", title, fields.key_place(name), path=f"{path}.{name}", label=label)
    return ClusterSpec(
        controllers=tuple(controllers),
        brokers=brokers,
        config=config,
        phases=phases,
        heartbeats=heartbeats,
        quotas=quotas,
        initial_controllers=initial,
    )


def _read_config(scope: Scope, fields: Fields) -> tuple[dict[str, str], str | None]:
    """Read the settings of a `config` block or a server.properties file.

    Paths in `log.dirs` are replaced by d1, d2 and so on, because each broker keeps its logs in its own folder.

    Returns:
        The settings without `broker.rack`, and the value of `broker.rack`; None if it is not set.
    """
    reader = scope.reader
    found = reader.config_node(fields)
    if found is None:
        return {}, None
    node, path = found
    rack = None
    if isinstance(node, Mapping) and BROKER_RACK in node.entries:
        rack = _read_rack(scope, node.entries[BROKER_RACK][1], f"{path}.{BROKER_RACK}")
        node = Mapping(node.place, {key: entry for key, entry in node.entries.items() if key != BROKER_RACK})
    config = reader.config(node, path, BrokerConfig, other_names=_NAMES_OF_BROKERS, known=BROKER_KEYS)
    paths = [part.strip() for part in config.get("log.dirs", "").split(",")]
    if all("/" in part or "\\" in part for part in paths):
        if len(paths) == 1:
            reader.inert["neutral"].setdefault("log.dirs", reader.places[f"{path}.log.dirs"])
            del config["log.dirs"]
        else:
            config["log.dirs"] = ",".join(f"d{number}" for number in range(1, len(paths) + 1))
    return config, rack


def _read_quotas(scope: Scope, node: Node, path: str) -> tuple[ClientQuota, ...]:
    items = scope.reader.items(node, path, "`quotas`")
    read = [SetQuota.declaration.read(scope, item, item_path) for item, item_path in items]
    return tuple(item.as_spec for item in read if isinstance(item, SetQuota))


def _unnamed_controller(brokers: Sequence[str]) -> str:
    """Return the name of a controller that the file does not name: c1, or the next such name that no broker has."""
    return next(name for number in count(1) if (name := f"c{number}") not in brokers)


def _read_brokers(scope: Scope, node: Node, path: str, common_rack: str | None) -> dict[str, BrokerSpec]:
    reader = scope.reader
    brokers: dict[str, BrokerSpec] = {}
    example = "for example {b1: {}, b2: {}, b3: {}}" if isinstance(node, Scalar) else "{}"
    for name, key_node, value, value_path in reader.entries(node, path, "`brokers`", example):
        if not new_node(scope, name, key_node, value_path, "broker"):
            continue
        scope.brokers.append(name)
        known = ("rack", "disk", "cpu", "config", "config_file")
        fields = reader.fields(value, value_path, f"broker `{name}`", known, elsewhere=own_config(BrokerConfig))
        disk = fields.read("disk", lambda n, p: _read_disk(reader, n, p), None)
        cpu = fields.read("cpu", lambda n, p: _read_cpu(reader, n, p), None)
        config, rack = _read_config(scope, fields)
        rack = fields.read("rack", lambda n, p: _read_rack(scope, n, p), rack or common_rack)
        if rack is not None:
            scope.racks.setdefault(rack, []).append(name)
        brokers[name] = BrokerSpec(name=name, rack=rack, disk=disk, cpu=cpu, config=config)
    if isinstance(node, Mapping) and not 1 <= len(node.entries) <= BROKERS_MAX:
        reader.error(
            "E140",
            f"the cluster has {len(node.entries)} brokers; 1 to {BROKERS_MAX} are allowed",
            node.place,
            path=path,
        )
    return brokers


def _read_phases(scope: Scope, node: Node, path: str, key: str, whose: str) -> Phases:
    if isinstance(node, Scalar) and node.text == "random":
        return "random"
    reader = scope.reader
    if not isinstance(node, Mapping):
        near = did_you_mean(node.text, ("random",)) if isinstance(node, Scalar) else None
        label = "" if near else "for example {b1: 3s}"
        title = f"`{key}` must be `random`, or a time for each {'broker' if whose == BROKER else 'node'}"
        reader.error("E111", title, node.place, path=path, suggestion=near, label=label)
        return {}
    phases: dict[str, int] = {}
    for name, key_node, value, value_path in reader.entries(node, path, f"`{key}`"):
        scope.check_node(name, key_node.place, value_path, whose)
        phases[name] = reader.time(value, value_path, f"the phase of `{name}`")
        if phases[name] >= PHASES_END_US:
            reader.error("E112", f"the phase of `{name}` must be below 10 minutes", value.place, path=value_path)
    return phases


def _read_log_dirs(scope: Scope, name: str, config: MappingType[str, str], path: str, place: Place) -> None:
    """Check the names in `log.dirs` of a broker. Each becomes a directory, so only plain names are allowed."""
    names = log_dirs_of(config.get("log.dirs", ""))
    scope.log_dirs[name] = names
    if names == ("",):
        return
    if len(set(names)) < len(names) or len(names) > LOG_DIRS_MAX or not all(SLUG.fullmatch(item) for item in names):
        scope.reader.error(
            "E113",
            f"`log.dirs` of `{name}` cannot be `{config['log.dirs'][:80]}`",
            scope.reader.places.get(f"{path}.config.log.dirs", place),
            path=f"{path}.config.log.dirs",
            label=f"use up to {LOG_DIRS_MAX} different names of lower-case letters, digits and dashes, such as d1,d2",
        )


def _read_disk(reader: Reader, node: Node, path: str) -> ServiceTime:
    return read_service_time(reader.fields(node, path, "`disk`", SERVICE_TIME_KEYS))


def _read_cpu(reader: Reader, node: Node, path: str) -> CpuTimes:
    fields = reader.fields(node, path, "`cpu`", CPU_KEYS)
    found = fields.get("connections_per_poll")
    takes_all = found is not None and isinstance(found[0], Scalar) and found[0].text == "all"
    at_once = None if takes_all else fields.integer("connections_per_poll", CONNECTION_QUEUE_SIZE, 1, 1_000_000)
    return CpuTimes(
        request_us=fields.time("request", 0),
        produced_us=fields.time("produce", 0),
        fetched_us=fields.time("fetch", 0),
        replicated_us=fields.time("replicate", 0),
        connection_us=fields.time("connection", 0),
        connections_per_poll=at_once,
    )


def _read_rack(scope: Scope, node: Node, path: str) -> str:
    rack = scope.reader.text(node, path, "`rack`")
    if isinstance(node, Scalar) and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", rack):
        label = "`${...}` is a placeholder: write the name itself" if "${" in rack else ""
        scope.reader.error("E113", f"a rack cannot be called `{rack[:80]}`", node.place, path=path, label=label)
    return rack


def _read_initial_controllers(scope: Scope, node: Node, path: str, rules: Rules) -> tuple[str, ...]:
    """Read the controllers that vote at first; all others are observers until a step adds them as voters (KIP-853)."""
    names = []
    for item, item_path in scope.reader.items(node, path, "`initial_controllers`"):
        name = scope.reader.text(item, item_path, "a controller")
        if isinstance(item, Scalar):
            scope.check_node(name, item.place, item_path, CONTROLLER)
            names.append(name)
    if rules.release < VOTERS_CHANGE_SINCE:
        title = "the voters of a quorum cannot change before Kafka 3.9"
        label = f"drop `initial_controllers`, or use `profile: {VOTERS_CHANGE_SINCE.era}` or later"
        scope.reader.error("E120", title, node.place, path=path, label=label)
    elif len(set(names)) < len(names):
        scope.reader.error("E112", "`initial_controllers` names a controller twice", node.place, path=path)
    return tuple(names)


def _read_controllers(scope: Scope, node: Node, path: str, rules: Rules, *, of_voters: bool) -> list[str]:
    """Read the names of the controllers.

    Args:
        of_voters: whether all these controllers are voters, of which there must be 1, 3 or 5.
    """
    names: list[str] = []
    count = min(int(node.text[:2]), CONTROLLERS_MAX) if isinstance(node, Scalar) and node.text.isdigit() else 0
    meant = list(node.entries)[:CONTROLLERS_MAX] if isinstance(node, Mapping) else []
    meant = meant or [f"c{number}" for number in range(1, count + 1)]
    example = f"write [{', '.join(meant)}]" if meant else ""
    items = scope.reader.items(node, path, "`controllers`", example)
    if not items and not node.is_nothing:
        return names
    for item, item_path in items:
        name = scope.reader.text(item, item_path, "a controller")
        if isinstance(item, Scalar) and new_node(scope, name, item, item_path, "controller"):
            names.append(name)
    if len(names) > 1 and rules.membership == "zk-session":
        scope.reader.error(
            "E111",
            "a cluster of the ZooKeeper era cannot name several controllers",
            node.place,
            path=path,
            label="write one name, which stands for ZooKeeper; in that era a broker is the controller",
        )
    elif len(names) not in (CONTROLLERS if of_voters else range(1, CONTROLLERS_MAX + 1)):
        scope.reader.error(
            "E112",
            f"a quorum has {'1, 3 or 5' if of_voters else f'1 to {CONTROLLERS_MAX}'} controllers, not {len(names)}",
            node.place,
            path=path,
            label="an even number of voters tolerates no more failures than one voter fewer" if of_voters else "",
        )
    return names


def _check_whole(
    reader: Reader, path: str, schema: type[Config], values: MappingType[str, str], other_path: str = ""
) -> None:
    """Report an error if the values of a configuration contradict each other.

    Args:
        path: path of the configuration block.
        other_path: path of a second block that may hold the key, for the position of the error.
    """
    try:
        schema.from_mapping(values)
    except ConfigError as error:
        place = reader.places.get(f"{path}.{error.key}") or reader.places.get(f"{other_path}.{error.key}")
        place = place or reader.places.get(path) or reader.places.get(other_path)
        if place is None:
            place = next(iter(reader.places.values()))
        reader.error("E126", f"`{error.key}`: {error.message}", place, path=f"{path}.{error.key}")


# ------------------------------------------------------------------------------------------------------------ topics


_A_TOPIC = 'for example {t: {partitions: 1, config: "the text after `Configs:` in `kafka-topics.sh --describe`"}}'


def why_no_topic(name: str) -> str | None:
    """Return the reason why a topic cannot have that name; None if it can.

    The name becomes a directory, so this rule also keeps a run inside its folder.

    Source: Topic.validate
    """
    if name.startswith("__"):
        return "names that begin with __ are reserved for Kafka"
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        return "use 1 to 249 letters, digits, `.`, `_` or `-`, but not `.` or `..`"
    return None


def read_topics(scope: Scope, node: Node, path: str, cluster: ClusterSpec) -> dict[str, TopicSpec]:
    reader = scope.reader
    topics: dict[str, TopicSpec] = {}
    example = "{partitions: 1}"
    if isinstance(node, Scalar):
        is_name = re.fullmatch("[A-Za-z][A-Za-z0-9_-]{0,40}", node.text)
        example = described(node.text) or (f"write {{{node.text}: {example}}}" if is_name else _A_TOPIC)
    for name, key_node, value, value_path in reader.entries(node, path, "`topics`", example):
        if why := why_no_topic(name):
            reader.error("E113", f"a topic cannot be called `{name[:80]}`", key_node.place, path=path, label=why)
            scope.refused.append(name)
            continue
        topics[name] = _read_topic(scope, name, value, value_path, cluster)
        scope.topics[name] = topics[name].partitions
    total = sum(topic.partitions for topic in topics.values())
    if total > PARTITIONS_MAX:
        reader.error(
            "E140", f"the topics have {total} partitions; at most {PARTITIONS_MAX} are allowed", node.place, path=path
        )
    return topics


def _read_topic(scope: Scope, name: str, node: Node, path: str, cluster: ClusterSpec) -> TopicSpec:
    reader = scope.reader
    fields = reader.fields(
        node,
        path,
        f"topic `{name}`",
        ("partitions", "replication_factor", "config", "config_file"),
        {"partitions": "1"},
        elsewhere=own_config(TopicConfig),
        example=_partitions_meant(node),
    )
    value = reader.config_node(fields)
    config = {}
    if value is not None:
        config = reader.config(*value, TopicConfig, other_names=_NAMES_OF_TOPICS, known=TOPIC_KEYS)
    found = fields.get("partitions")
    if found is not None and isinstance(found[0], Mapping):
        assignment = _read_assignment(scope, found[0], found[1])
        if "replication_factor" in fields:
            reader.error(
                "E111",
                "`replication_factor` cannot be used with an explicit assignment",
                fields.key_place("replication_factor"),
                label="drop it: the assignment determines the factor",
                path=f"{path}.replication_factor",
            )
        factor = len(assignment[0]) if assignment else 1
        return TopicSpec(
            name=name, partitions=len(assignment), assignment=assignment, replication_factor=factor, config=config
        )
    partitions = 1 if found is None else reader.integer(*found, "`partitions`", 1, PARTITIONS_MAX)
    default = min(int(cluster.config.get("default.replication.factor", "1")), max(1, len(cluster.brokers)))
    factor = fields.read(
        "replication_factor",
        lambda n, p: reader.integer(n, p, "`replication_factor`", 1, len(cluster.brokers) or BROKERS_MAX),
        default,
    )
    return TopicSpec(name=name, partitions=partitions, assignment=None, replication_factor=factor, config=config)


def _partitions_meant(node: Node) -> str:
    """Return advice for a topic written as `t: 3` or `t: [b1, b2, b3]`; empty for another value."""
    replicas = [plain_text(item) or "" for item in node.items] if isinstance(node, SequenceNode) else []
    if replicas and all(replicas):
        return f"write {{partitions: {{0: [{', '.join(replicas)}]}}}}"
    return f"write {{partitions: {node.text}}}" if isinstance(node, Scalar) and node.text.isdigit() else ""


def _read_assignment(scope: Scope, node: Mapping, path: str) -> tuple[tuple[str, ...], ...]:
    reader = scope.reader
    replicas: dict[int, tuple[str, ...]] = {}
    for key, key_node, value, value_path in reader.entries(node, path, "`partitions`"):
        number = reader.integer(key_node, value_path, "a partition's number", 0, PARTITIONS_MAX - 1)
        names = [
            scope.broker(item, item_path, "a replica")
            for item, item_path in reader.items(value, value_path, "replicas")
        ]
        if len(set(names)) < len(names):
            reader.error("E134", f"partition {key} lists a broker twice", value.place, path=value_path)
        if not names:
            reader.error("E111", f"partition {key} has no replica", key_node.place, path=value_path)
        replicas[number] = tuple(names)
    if sorted(replicas) != list(range(len(replicas))) or not replicas:
        reader.error("E112", "partitions must be numbered 0, 1, 2, ... without a gap", node.place, path=path)
    return tuple(replicas[number] for number in sorted(replicas))


# ----------------------------------------------------------------------------------------------------------- network


def read_network(scope: Scope, node: Node, path: str) -> NetworkSpec:
    reader = scope.reader
    fields = reader.fields(node, path, "`network`", NETWORK_FIELDS)
    latency = fields.read("latency", lambda n, p: read_delay(reader, n, p, "`latency`"), DEFAULT_LATENCY)
    jitter = fields.time("jitter", 0)
    if jitter:
        if latency.kind != "constant":
            reader.error(
                "E111",
                "`jitter` cannot be used with a latency that already varies",
                fields.key_place("jitter"),
                path=path,
            )
        latency = Delay("uniform", latency.least_us, jitter)
    bandwidth = fields.bandwidth("bandwidth", None)
    found = fields.get("links")
    links = () if found is None else tuple(_read_link(scope, *item) for item in reader.items(*found, "`links`"))
    return NetworkSpec(
        latency=latency,
        bytes_per_second=bandwidth,
        card_bytes_per_second=fields.bandwidth("card", None),
        cards=fields.read("cards", lambda n, p: _read_cards(scope, n, p), {}),
        links=links,
    )


def _read_cards(scope: Scope, node: Node, path: str) -> dict[str, int]:
    cards: dict[str, int] = {}
    for name, key_node, value, value_path in scope.reader.entries(node, path, "`cards`"):
        scope.check_node(name, key_node.place, value_path)
        cards[name] = scope.reader.bandwidth(value, value_path, f"the network card of `{name}`")
    return cards


def _read_link(scope: Scope, node: Node, path: str) -> LinkSpec:
    reader = scope.reader
    fields = reader.fields(node, path, "a link", ("between", "latency", "bandwidth", "loss"), ("between",))
    sides = fields.read("between", lambda n, p: read_sides(scope, n, p), None)
    side_a, side_b = sides or (NO_NODES, NO_NODES)
    return LinkSpec(
        side_a=side_a,
        side_b=side_b,
        latency=fields.read("latency", lambda n, p: read_delay(reader, n, p, "`latency`"), None),
        bytes_per_second=fields.bandwidth("bandwidth", None),
        loss_ppm=fields.share_ppm("loss", None),
    )
