"""Kafka's own command line tools, 4.1, at a live cluster: an operator's commands work, with the output of Kafka.

`tests/live/kafka_tools/install.sh DIR` fetches them; KAFKA_TOOLS_LIB names DIR.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from serving import Served, serving
from verdicts import expect_nothing_broken

from tests.waiting import wait_for

TOOLS = "org.apache.kafka.tools"
LIB = os.environ.get("KAFKA_TOOLS_LIB", "")
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        not LIB or shutil.which("java") is None,
        reason="Kafka's tools are not installed here: tests/live/kafka_tools/install.sh DIR, KAFKA_TOOLS_LIB=DIR",
    ),
]


class Tools:
    """Runs one tool at a time against a cluster; each takes seconds, most of them Java's."""

    def __init__(self, served: Served, folder: Path) -> None:
        self._bootstrap = ("--bootstrap-server", served.bootstrap)
        self._folder = folder

    def run(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """Its output, errors too.     tool: with its subcommand, if it has one"""
        java = ("java", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", f"{LIB}/*", *tool.split())
        done = subprocess.run(
            [*java, *self._bootstrap, *arguments],
            input=stdin,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        return done.stdout

    def file(self, name: str, content: object) -> str:
        path = self._folder / name
        path.write_text(json.dumps(content))
        return str(path)


def wanted(**replicas: list[int]) -> dict[str, object]:
    """A reassignment of partition 0 of each topic."""
    partitions = [{"topic": topic, "partition": 0, "replicas": ids} for topic, ids in replicas.items()]
    return {"version": 1, "partitions": partitions}


def reassign(tools: Tools, plan: str, *action: str) -> str:
    return tools.run(f"{TOOLS}.reassign.ReassignPartitionsCommand", "--reassignment-json-file", plan, *action)


def config_of(tools: Tools, kind: str, name: str, *more: str) -> str:
    return tools.run("kafka.admin.ConfigCommand", "--describe", "--entity-type", kind, "--entity-name", name, *more)


def test_a_reassignment_is_verified_and_its_throttles_go(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "orders:1:2") as served:
        tools = Tools(served, tmp_path)
        plan = tools.file("plan.json", wanted(orders=[3, 2]))
        assert "Successfully started partition reassignment" in reassign(
            tools, plan, "--execute", "--throttle", "1000000"
        )
        assert "leader.replication.throttled.rate=1000000" in config_of(tools, "brokers", "1")
        said = wait_for(lambda: reassign(tools, plan, "--verify"), holds=lambda said: "is completed" in said)
        assert "Reassignment of partition orders-0 is completed." in said
        assert "Clearing broker-level throttles on brokers 1,2,3" in said
        assert "Clearing topic-level throttles on topic orders" in said
        assert "Error" not in said and "Exception" not in said
        assert "throttled" not in config_of(tools, "brokers", "1") + config_of(tools, "topics", "orders")
        served.stop()
    assert not served.summary["our_bug"]


def test_a_reassignment_under_way_is_cancelled(tmp_path: Path) -> None:
    """Throttled to a byte a second, the second fetch of its 3 MB never comes."""
    with serving(tmp_path, "--topic", "orders:1:1") as served:
        tools = Tools(served, tmp_path)
        lines = "".join(letter * 900_000 + "\n" for letter in "xyz")
        tools.run(f"{TOOLS}.ConsoleProducer", "--topic", "orders", stdin=lines)
        plan = tools.file("plan.json", wanted(orders=[2]))
        reassign(tools, plan, "--execute", "--throttle", "1")
        assert "orders-0: replicas: 2,1. adding: 2. removing: 1." in tools.run(
            f"{TOOLS}.reassign.ReassignPartitionsCommand", "--list"
        )
        said = reassign(tools, plan, "--cancel")
        assert "Successfully cancelled partition reassignment for: orders-0" in said
        assert "Clearing broker-level throttles" in said and "Exception" not in said
        assert "Replicas: 1\t" in tools.run(f"{TOOLS}.TopicCommand", "--describe", "--topic", "orders")
        assert "throttled" not in config_of(tools, "brokers", "1") + config_of(tools, "topics", "orders")
        served.stop()
    assert served.summary["records"]["lost"] == [] and not served.summary["our_bug"]


def test_what_an_operator_asks(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "orders:1:3") as served:
        tools = Tools(served, tmp_path)
        # The producer and the consumer speak Produce 13 and Fetch 18: topics by id.
        tools.run(f"{TOOLS}.ConsoleProducer", "--topic", "orders", stdin="r0\nr1\nr2\n")
        assert "orders:0:3" in tools.run(f"{TOOLS}.GetOffsetShell", "--topic", "orders")
        read = tools.run(
            f"{TOOLS}.consumer.ConsoleConsumer",
            *("--topic", "orders", "--from-beginning", "--max-messages", "3", "--group", "g"),
        )
        assert read.splitlines()[:3] == ["r0", "r1", "r2"]
        groups = tools.run(f"{TOOLS}.consumer.group.ConsumerGroupCommand", "--describe", "--group", "g")
        assert "orders          0          3               3               0" in groups
        offered = tools.run(f"{TOOLS}.BrokerApiVersionsCommand")
        assert offered.count("Produce(0): 0 to 13 [usable: 13]") == 3
        assert offered.count("Fetch(1): 4 to 18 [usable: 18]") == 3
        # Level 33 is of Kafka 4.4, and these tools of 4.1 have no name for it.
        assert "FinalizedVersionLevel: UNKNOWN 33" in tools.run(f"{TOOLS}.FeatureCommand", "describe")
        described = config_of(tools, "brokers", "1", "--all")
        assert "process.roles=broker" in described and "log.retention.hours=168" in described
        assert "Failed to list" not in tools.run(f"{TOOLS}.TransactionsCommand", "list")
        assert "Error" not in tools.run("kafka.admin.ConfigCommand", "--describe", "--entity-type", "users")
        assert "PartitionCount: 1" in tools.run(f"{TOOLS}.TopicCommand", "--describe", "--topic", "orders")
        served.stop()
    expect_nothing_broken(served.summary)
    assert len(served.summary["records"]["acked"]) == 3


def test_a_group_of_kip_848_with_the_java_consumer(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "orders:3:3") as served:
        tools = Tools(served, tmp_path)
        tools.run(f"{TOOLS}.ConsoleProducer", "--topic", "orders", stdin="r0\nr1\nr2\n")
        consumer = (
            *(f"{TOOLS}.consumer.ConsoleConsumer", "--topic", "orders", "--from-beginning", "--group", "g"),
            *("--consumer-property", "group.protocol=consumer", "--max-messages"),
        )
        assert sorted(tools.run(*consumer, "3").splitlines()[:3]) == ["r0", "r1", "r2"]
        command = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
        listed = tools.run(command, "--list", "--type")
        assert "Consumer" in next(line for line in listed.splitlines() if line.startswith("g "))
        assert "Empty" in tools.run(command, "--describe", "--group", "g", "--state")
        tools.run(f"{TOOLS}.ConsoleProducer", "--topic", "orders", stdin="r3\n")
        assert tools.run(*consumer, "1").splitlines()[:1] == ["r3"], "the second goes on where the first stopped"
        assert "successful" in tools.run(command, "--delete", "--group", "g")
        served.stop()
    assert not served.summary["our_bug"]


def test_a_share_group_with_the_java_consumer(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "orders:1:3", "--profile", "kafka-4.2") as served:
        tools = Tools(served, tmp_path)
        earliest = ("--entity-type", "groups", "--entity-name", "g", "--add-config", "share.auto.offset.reset=earliest")
        tools.run("kafka.admin.ConfigCommand", "--alter", *earliest)
        tools.run(f"{TOOLS}.ConsoleProducer", "--topic", "orders", stdin="r0\nr1\nr2\n")
        consumer = (
            f"{TOOLS}.consumer.ConsoleShareConsumer",
            "--topic",
            "orders",
            "--group",
            "g",
            "--timeout-ms",
            "60000",
        )
        rejected = tools.run(*consumer, "--reject", "--max-messages", "2").splitlines()
        assert rejected[:2] == ["r0", "r1"]
        assert tools.run(*consumer, "--release", "--max-messages", "1").splitlines()[:1] == ["r2"]
        assert tools.run(*consumer, "--max-messages", "1").splitlines()[:1] == ["r2"], "it was released"
        command = f"{TOOLS}.consumer.group.ShareGroupCommand"
        assert "Empty" in tools.run(command, "--describe", "--group", "g", "--state")
        assert "orders" in tools.run(command, "--describe", "--group", "g", "--offsets")
        tools.run(command, "--delete-offsets", "--group", "g", "--topic", "orders")
        assert "orders" not in tools.run(command, "--describe", "--group", "g", "--offsets")
        assert tools.run(*consumer, "--max-messages", "3").splitlines()[:3] == ["r0", "r1", "r2"], "they begin again"
        served.stop()
    assert not served.summary["our_bug"]


def test_what_a_java_share_consumer_rejects_goes_to_the_dead_letter_queue(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "orders:1:3", "--profile", "kafka-4.4") as served:
        tools, queue = Tools(served, tmp_path), "errors.deadletterqueue"
        config = ("kafka.admin.ConfigCommand", "--alter", "--entity-type")
        tools.run(*config, "brokers", "--entity-default", "--add-config", f"{queue}.auto.create.topics.enable=true")
        settings = {"share.auto.offset.reset": "earliest", f"{queue}.topic.name": "dlq.q"}
        settings[f"{queue}.copy.record.enable"] = "true"
        given = ",".join(f"{name}={value}" for name, value in settings.items())
        tools.run(*config, "groups", "--entity-name", "g", "--add-config", given)
        tools.run(f"{TOOLS}.ConsoleProducer", "--topic", "orders", stdin="r0\nr1\n")
        rejecting = (f"{TOOLS}.consumer.ConsoleShareConsumer", "--topic", "orders", "--group", "g", "--reject")
        tools.run(*rejecting, "--timeout-ms", "60000", "--max-messages", "2")
        reading = (f"{TOOLS}.consumer.ConsoleConsumer", "--topic", "dlq.q", "--from-beginning", "--max-messages", "2")
        letters = tools.run(*reading, "--timeout-ms", "60000", "--property", "print.headers=true").splitlines()
        served.stop()
    for number, letter in enumerate(letters[:2]):
        assert f"__dlq.errors.topic:orders,__dlq.errors.partition:0,__dlq.errors.offset:{number}," in letter
        assert letter.endswith(f"__dlq.errors.message:Offset rejected by client.\tr{number}")
    assert len(letters) >= 2 and not served.summary["our_bug"]


def test_a_dead_broker_is_forgotten(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "orders:1:3") as served:
        tools = Tools(served, tmp_path)

        def forget(broker_id: int) -> str:
            return tools.run(f"{TOOLS}.ClusterTool unregister", "--id", str(broker_id))

        assert "Broker 3 is no longer registered." in forget(3)
        described = tools.run(f"{TOOLS}.TopicCommand", "--describe", "--topic", "orders")
        assert "Isr: 1,2" in described or "Isr: 2,1" in described
        # As in Kafka, whose answer has no message of its own.
        assert "The given broker ID was not registered." in forget(9)


def test_levels_of_features_change_as_far_as_they_may(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "orders:1:1", brokers=1) as served:
        tools, command = Tools(served, tmp_path), f"{TOOLS}.FeatureCommand"
        assert "group.version was upgraded to 1." in tools.run(command, "upgrade", "--feature", "group.version=1")
        refused = tools.run(command, "upgrade", "--feature", "group.version=7")
        assert "Could not upgrade group.version to 7." in refused
        assert "Invalid update version 7 for feature group.version." in refused
        lowered = tools.run(command, "downgrade", "--feature", "transaction.version=1", "--feature", "group.version=0")
        assert "transaction.version was downgraded to 1." in lowered and "group.version was downgraded to 0." in lowered
        (described,) = [line for line in tools.run(command, "describe").splitlines() if "transaction.version" in line]
        assert "SupportedMaxVersion: 2" in described and "FinalizedVersionLevel: 1" in described
        unsafe = tools.run(command, "downgrade", "--feature", "metadata.version=20")
        assert "Refusing to perform the requested downgrade because it might delete metadata" in unsafe
        assert "transaction.version was upgraded to 2." in tools.run(
            command, "upgrade", "--feature", "transaction.version=2"
        )


QUORUM = """\
schema: 1
id: quorum
title: Controllers that change
duration: 600s
cluster:
  controllers: [{controllers}]{initial}
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
topics:
  orders: {{partitions: {{0: [b1, b2, b3]}}}}
workloads: {{}}
timeline: []
"""


def test_a_controller_is_added_and_another_removed(tmp_path: Path) -> None:
    scenario = tmp_path / "quorum.yaml"
    initial = "\n  initial_controllers: [c1, c2, c3]"
    scenario.write_text(QUORUM.format(controllers="c1, c2, c3, c4", initial=initial))
    with serving(tmp_path, "--scenario", str(scenario)) as served:
        tools, command = Tools(served, tmp_path), f"{TOOLS}.MetadataQuorumCommand"

        def directories(status: str) -> dict[str, str]:
            rows = [line.split() for line in tools.run(command, "describe", "--replication").splitlines()]
            return {row[0]: row[1] for row in rows if row and row[-1] == status}

        def remove(controller: str, directory: str) -> str:
            which = ("--controller-id", controller, "--controller-directory-id", directory)
            return tools.run(command, "remove-controller", *which)

        new = directories("Observer")["1004"]
        log = tmp_path / "log"
        log.mkdir()
        properties = f"version=1\ncluster.id=aGlnaHdhdGVyY2x1c3Rlcg\nnode.id=1004\ndirectory.id={new}\n"
        (log / "meta.properties").write_text(properties)
        config = tmp_path / "controller.properties"
        config.write_text(
            "process.roles=controller\nnode.id=1004\ncontroller.listener.names=CONTROLLER\n"
            "listeners=CONTROLLER://127.0.0.1:9\nadvertised.listeners=CONTROLLER://127.0.0.1:9\n"
            f"controller.quorum.bootstrap.servers=127.0.0.1:9\nlog.dirs={log}\n"
        )
        add = (command, "--command-config", str(config), "add-controller")
        assert "Added controller 1004 with directory id" in tools.run(*add)
        key = f"ReplicaKey(id=1004, directoryId={new})"
        assert f"DuplicateVoterException: The voter id for {key} is already part of the" in tools.run(*add)
        removed, directory = next(iter(directories("Follower").items()))
        other = "AAAAAAAAAAAAAAAAAAAAAQ"
        assert f"Cannot remove voter ReplicaKey(id={removed}, directoryId={other}) from" in remove(removed, other)
        done = f"KRaft controller {removed} with directory id {directory}"
        assert re.search(f"^Removed +{done}$", remove(removed, directory), re.MULTILINE)  # 4.1 has two spaces
        assert directories("Observer")[removed] == directory
        features = f"{TOOLS}.FeatureCommand"
        assert "kraft.version was upgraded to 1." in tools.run(features, "upgrade", "--feature", "kraft.version=1")
        lowered = tools.run(features, "downgrade", "--feature", "kraft.version=0")
        assert "feature kraft.version. Can't downgrade the version of this feature." in lowered
        served.stop()
    expect_nothing_broken(served.summary)


def test_configured_voters_move_into_the_metadata_log(tmp_path: Path) -> None:
    scenario = tmp_path / "quorum.yaml"
    scenario.write_text(QUORUM.format(controllers="c1, c2, c3", initial=""))
    with serving(tmp_path, "--scenario", str(scenario)) as served:
        tools, quorum = Tools(served, tmp_path), f"{TOOLS}.MetadataQuorumCommand"
        gone = ("--controller-id", "1003", "--controller-directory-id", "AAAAAAAAAAAAAAAAAAAAAQ")
        too_early = "Cluster doesn't support removing voter because the kraft.version feature is 0"
        assert too_early in tools.run(quorum, "remove-controller", *gone)
        upgrade = (f"{TOOLS}.FeatureCommand", "upgrade", "--feature", "kraft.version=1")
        # Until a follower has had its leader for controller.quorum.fetch.timeout.ms, the leader does not know its disk.
        wait_for(lambda: tools.run(*upgrade), holds=lambda said: "kraft.version was upgraded to 1." in said)
        described = tools.run(quorum, "describe", "--replication")
        assert described.count("Follower") == 2 and described.count("Observer") == 3, "the brokers"
        assert "Cannot remove voter" in tools.run(quorum, "remove-controller", *gone)
        served.stop()
    expect_nothing_broken(served.summary)


def test_settings_of_brokers_change_while_they_run(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "orders:1:3") as served:
        tools = Tools(served, tmp_path)

        def alter(*what: str) -> str:
            return tools.run("kafka.admin.ConfigCommand", "--alter", "--entity-type", "brokers", *what)

        default, retention = "--entity-default", "log.retention.ms"
        done = "Completed updating default config for brokers in the cluster."
        assert done in alter(default, "--add-config", f"{retention}=60000,num.io.threads=16")
        assert "Completed updating config for broker 1." in alter(
            "--entity-name", "1", "--add-config", f"{retention}=5000"
        )
        own, all_of_them = config_of(tools, "brokers", "1"), config_of(tools, "brokers", "2", "--all")
        assert f"{retention}=5000 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{retention}=5000, " in own
        assert f"DYNAMIC_DEFAULT_BROKER_CONFIG:{retention}=60000" in own and "num.io.threads=16" not in own
        assert f"{retention}=60000 sensitive=false synonyms={{DYNAMIC_DEFAULT_BROKER_CONFIG:" in all_of_them
        threads = "num.io.threads=16 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:num.io.threads=16, "
        assert f"{threads}DEFAULT_CONFIG:num.io.threads=8}}" in all_of_them
        of_topic = config_of(tools, "topics", "orders", "--all")
        said_by_broker_1 = f"retention.ms=5000 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{retention}=5000"
        said_by_others = (
            f"retention.ms=60000 sensitive=false synonyms={{DYNAMIC_DEFAULT_BROKER_CONFIG:{retention}=60000"
        )
        # The admin client asks any broker.
        assert said_by_broker_1 in of_topic or said_by_others in of_topic
        assert "Cannot update these configs dynamically: Set(num.partitions)" in alter(
            default, "--add-config", "num.partitions=3"
        )
        assert done in alter(default, "--add-config", "min.insync.replicas=2")
        assert "Cluster-level min.insync.replicas cannot be removed while ELR is enabled." in alter(
            default, "--delete-config", "min.insync.replicas"
        )
        assert "Completed updating config" in alter("--entity-name", "1", "--delete-config", retention)
        assert retention not in config_of(tools, "brokers", "1").replace("DEFAULT_BROKER", "")
        served.stop()
    assert not served.summary["our_bug"]


def test_settings_of_groups(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "orders:1:2") as served:
        tools = Tools(served, tmp_path)

        def alter(*what: str, name: str = "billing") -> str:
            return tools.run(
                "kafka.admin.ConfigCommand", "--alter", "--entity-type", "groups", "--entity-name", name, *what
            )

        timeout, interval, done = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "Completed updating"
        assert f"{done} config for group billing." in alter("--add-config", f"{timeout}=50000,{interval}=6000")
        own = f"{timeout}=50000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{timeout}=50000}}"
        default = f"{timeout}=45000 sensitive=false synonyms={{DEFAULT_CONFIG:{timeout}=45000}}"
        assert own in config_of(tools, "groups", "billing")
        assert default in config_of(tools, "groups", "other", "--all")
        every = tools.run("kafka.admin.ConfigCommand", "--describe", "--entity-type", "groups")
        assert "Dynamic configs for group billing are:" in every and own in every
        too_long = f"{timeout} must be in the range 45000 to 60000 inclusive."
        assert f"InvalidConfigurationException: {too_long}" in alter("--add-config", f"{timeout}=60001")
        too_many = "streams.num.standby.replicas must be less than or equal to 2"
        assert too_many in alter("--add-config", "streams.num.standby.replicas=3")
        assert "Unknown group config name: nonsense" in alter("--add-config", "nonsense=1")
        assert done in alter("--delete-config", f"{timeout},{interval}")
        assert "DYNAMIC_GROUP_CONFIG" not in config_of(tools, "groups", "billing", "--all")
