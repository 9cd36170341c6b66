"""Defaults of each era, compared with those that Kafka's own classes have in the jars of its last patch."""

import os
import subprocess
from pathlib import Path

import pytest

from cluster.config import BrokerConfig, GroupConfig, GroupConsumerConfig, ProducerConfig, broker_config, topic_defaults
from cluster.defaults import CHANGES, defaults_of
from replica.config import Config, TopicConfig
from replica.rules import PROFILES, KafkaRelease

LISTED = Path(__file__).parents[1] / "defaults_of_releases.txt"
PROGRAM = Path(__file__).with_name("DefaultsOfRelease.java")
LIB = os.environ.get("KAFKA_TOOLS_LIB", "")
SCHEMAS: dict[str, type[Config]] = {
    "broker": BrokerConfig,
    "group": GroupConfig,
    "producer": ProducerConfig,
    "consumer": GroupConsumerConfig,
}
DIFFERS = {
    "enable.auto.commit",  # The application commits.
    "partition.assignment.strategy",  # Of range and cooperative-sticky, since 3.0 the default, a group takes range.
    "key.serializer",
    "value.serializer",
    "key.deserializer",
    "value.deserializer",
}
OLDEST_JAR = KafkaRelease(0, 10)
"""That of 0.8 has no ConfigDef."""
NULL = "null"


def plain(value: object) -> str:
    return str(value).lower().replace(" ", "").replace("[", "").replace("]", "") or NULL


def listed() -> dict[KafkaRelease, dict[tuple[str, str], str]]:
    """Return the defaults by release, kind and key; each is that of the release before unless it is listed."""
    eras = {rules.release: {} for rules in PROFILES.values()}
    found: dict[KafkaRelease, dict[tuple[str, str], str]] = eras
    for line in LISTED.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        kind, key, *changes = line.split()
        values = {KafkaRelease(*map(int, text.split("=")[0].split(".")[:2])): text.split("=")[1] for text in changes}
        for release in eras:
            known = [value for since, value in values.items() if since <= release]
            if known and known[-1] != "-":
                found[release][kind, key] = known[-1]
    return found


def ours(kind: str, release: KafkaRelease) -> dict[str, str]:
    if kind == "topic":
        config: Config = topic_defaults(broker_config({}, release))
    else:
        config = SCHEMAS[kind].from_mapping(defaults_of(SCHEMAS[kind], release))
    return {key: plain(getattr(config, item.name)) for key, item in type(config).keys().items()}


@pytest.mark.parametrize("era", [era for era, rules in PROFILES.items() if rules.release >= OLDEST_JAR])
def test_an_era_has_the_defaults_of_its_release(era: str) -> None:
    release = PROFILES[era].release
    differ = {}
    for (kind, key), default in listed()[release].items():
        value = ours(kind, release).get(key)
        if value is not None and key not in DIFFERS and plain(default) not in (NULL, value):
            differ[kind, key] = (default, value)
    assert not differ


def test_every_change_is_in_the_list() -> None:
    of_releases = listed()
    for kind, keys in CHANGES.items():
        for key in keys:
            assert any((kind, key) in known for known in of_releases.values()), key


def test_topics_of_a_release_have_no_other_keys() -> None:
    known = {key for defaults in listed().values() for kind, key in defaults if kind == "topic"}
    assert known == TopicConfig.keys().keys()


@pytest.mark.soak
@pytest.mark.skipif(not LIB, reason="Kafka's jars are not installed here: tests/live/kafka_tools/install.sh DIR")
def test_the_list_is_what_the_jars_say() -> None:
    (jar,) = Path(LIB).glob("kafka-clients-*.jar")
    release = KafkaRelease(*map(int, jar.stem.split("-")[2].split(".")[:2]))
    done = subprocess.run(
        ["java", "-cp", f"{LIB}/*", str(PROGRAM)], capture_output=True, text=True, check=True, timeout=120
    )
    said = {(kind, key): plain(value) for kind, key, value in (line.split("\t") for line in done.stdout.splitlines())}
    for (kind, key), default in listed()[release].items():
        assert said[kind, key].rpartition(".")[2] == plain(default).rpartition(".")[2] or key in DIFFERS, key
