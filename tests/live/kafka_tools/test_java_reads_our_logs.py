"""Kafka's DumpLogSegments reads what brokers here write of groups and transactions, in the versions of each release."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_java_transactions import java, pytestmark  # noqa: F401  # the same jars

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
    assert all(("expireTimestamp" in data) == (release == "0.11") for data in offsets)
    assert {data["protocolType"] for key, _, data in found if key == GROUP} == {"consumer"}
