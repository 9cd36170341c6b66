"""Kafka's DumpLogSegments reads what brokers here write of groups and transactions, in the versions of each release,
and what coordinators write of KIP-848's groups.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from coordinator_world import CoordinatorWorld
from test_java_transactions import java, pytestmark  # noqa: F401  # the same jars

from replica.log.batches.records import build_batch
from replica.rules import PROFILES
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.run.runner import run_scenario

OFFSET, GROUP, TRANSACTION = "1", "2", "0"
"""Types of their keys."""
WRITERS = (
    ("auto-commit", "__consumer_offsets", "--offsets-decoder"),
    ("txn-zombie", "__transaction_state", "--transaction-log-decoder"),
)


def records(folder: Path, topic: str, decoder: str) -> list[tuple[str, str, Any]]:
    """Of a broker: (type of the key, version of the value, its fields); tombstones are left out."""
    segments = ",".join(str(path) for path in sorted(folder.glob(f"{topic}-*/*.log")))
    said = java("kafka.tools.DumpLogSegments", "--files", segments, decoder)
    assert "isvalid: true" in said and "isvalid: false" not in said
    found = []
    for key, value in re.findall(r" key: (\{.*\}) payload: (\{.*\})$", said, re.MULTILINE):
        payload = json.loads(value)
        found.append((json.loads(key)["type"], payload["version"], payload["data"]))
    return found


@pytest.mark.parametrize(
    ("release", "versions"),
    [
        ("0.11", {OFFSET: "1", GROUP: "1", TRANSACTION: "0"}),
        ("2.1", {OFFSET: "3", GROUP: "2", TRANSACTION: "0"}),
        ("3.9", {OFFSET: "3", GROUP: "3", TRANSACTION: "0"}),
        ("4.1", {OFFSET: "4", GROUP: "3", TRANSACTION: "1"}),
    ],
)
def test_records_of_coordinators(release: str, versions: dict[str, str], tmp_path: Path) -> None:
    profile = f"kafka-{release}"
    found = []
    for name, topic, decoder in WRITERS:
        scenario = load_file(find_scenario(name), [f"profile={profile}"]).scenario
        assert scenario.rules == PROFILES[profile]
        run_dir = run_scenario(scenario, runs_dir=tmp_path).run_dir
        assert run_dir is not None
        found += records(run_dir / "logs" / "b1", topic, decoder)
    assert {(key, version) for key, version, _ in found} == set(versions.items())
    offsets = [data for key, _, data in found if key == OFFSET]
    assert [data["offset"] for data in offsets] == sorted(data["offset"] for data in offsets)
    assert all(("expireTimestamp" in data) == (versions[OFFSET] == "1") for data in offsets)
    assert {data["protocolType"] for key, _, data in found if key == GROUP} == {"consumer"}


def test_records_of_consumer_groups(tmp_path: Path) -> None:
    world = CoordinatorWorld()
    world.elect()
    world.beat("m1", 0, pattern="t.*", assignor="range")
    world.at(0)
    world.beat("m1", 1)
    world.beat("m2", 0, instance="i")
    world.beat("m1", 2)
    world.beat("m1", -1)
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    batch = build_batch([(key, value) for _, key, value in world.log], timestamp_ms=1)
    (folder / f"{0:020}.log").write_bytes(batch)
    found = records(tmp_path, "__consumer_offsets", "--offsets-decoder")
    assert {key for key, _, _ in found} == {"3", "5", "6", "7", "8", "16"}
    resolved = [data["topics"] for key, _, data in found if key == "16"]
    assert resolved == [["t"]]
    hashes = [data.get("metadataHash", 0) for key, _, data in found if key == "3"]
    assert hashes == [0, *[world.topics.hash_of(["t"])] * 3]
    (m1, m2) = (data for key, _, data in found if key == "5")
    assert (m1["subscribedTopicRegex"], m1["serverAssignor"]) == ("t.*", "range")
    assert (m2["instanceId"], m2["subscribedTopicNames"], m2["classicMemberMetadata"]) == ("i", ["t"], None)
    moved = [data for key, _, data in found if key == "8"]
    assert moved[-1]["partitionsPendingRevocation"], "what m1 is to give up"
