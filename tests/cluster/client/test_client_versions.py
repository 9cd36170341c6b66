"""The exchange of versions on a client's connections: tests/golden/client_versions.txt, and what follows from it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from connection_world import ConnectionWorld

from cluster.broker.api_table import APIS
from cluster.broker.apis.offered import offered_under
from cluster.client.api_versions import (
    CLIENT_SOFTWARE_VERSION,
    SPOKEN,
    Allowed,
    NodeApiVersions,
    discovers_versions,
    is_throttled_by,
)
from cluster.protocol.versions import (
    API_VERSIONS,
    CONSUMER_GROUP_HEARTBEAT,
    END_TXN,
    FETCH,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
    VERSIONS,
)
from replica.rules import PROFILES, KafkaRelease

ROOT = Path(__file__).parents[3]


def test_transcript(transcript: Callable[[Path, object], None]) -> None:
    transcript(ROOT / "tests" / "golden" / "client_versions.txt", ConnectionWorld())


def test_it_sends_nothing_that_the_codecs_cannot_write() -> None:
    for key, allowed in SPOKEN.items():
        low, high = VERSIONS[key]
        assert low <= allowed.oldest <= allowed.latest <= high
        assert key in APIS


def test_the_version_of_the_software_is_that_of_the_package() -> None:
    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert package["version"] == CLIENT_SOFTWARE_VERSION


@pytest.mark.parametrize("profile", [name for name, rules in PROFILES.items() if discovers_versions(rules.release)])
def test_every_era_offers_what_a_client_needs(profile: str) -> None:
    """A 4.1 client finds a version of each API, but for those that the era lacks."""
    found = NodeApiVersions(offered_under(PROFILES[profile]))
    lacking = {key for key in SPOKEN if found.usable(key) is None}
    release = PROFILES[profile].release
    is_old = release < KafkaRelease(2, 7)
    has_previews = release >= KafkaRelease(3, 9)
    shares = set() if release >= KafkaRelease(4, 1) else {SHARE_GROUP_HEARTBEAT, SHARE_FETCH, SHARE_ACKNOWLEDGE}
    assert lacking == ({OFFSET_FOR_LEADER_EPOCH} if is_old else set()) | shares | (
        set() if has_previews else {CONSUMER_GROUP_HEARTBEAT}
    )


@pytest.mark.parametrize(
    ("profile", "produce", "fetch", "metadata"),
    [
        ("kafka-0.11", 3, 5, 4),
        ("kafka-2.1", 7, 10, 7),
        ("kafka-2.7", 8, 12, 9),
        ("kafka-3.9", 11, 12, 12),
        ("kafka-4.1", 12, 12, 12),
    ],
)
def test_it_follows_the_era(profile: str, produce: int, fetch: int, metadata: int) -> None:
    found = NodeApiVersions(offered_under(PROFILES[profile]))
    assert [found.usable(key) for key in (PRODUCE, FETCH, METADATA)] == [produce, fetch, metadata]


def test_a_newer_rule_brings_what_its_clients_need() -> None:
    rules = PROFILES["kafka-3.5"].changed({"transactions": "v2"})
    assert offered_under(rules)[PRODUCE][1] == 12 and offered_under(rules)[END_TXN][1] == 5
    checks = PROFILES["kafka-2.0"].changed({"consumer-truncation-check": True})
    assert offered_under(checks)[METADATA][1] == 9 and offered_under(checks)[OFFSET_FOR_LEADER_EPOCH][1] == 3


def test_a_range_narrows_what_is_usable() -> None:
    found = NodeApiVersions({PRODUCE: (3, 9)})
    assert found.usable(PRODUCE) == 9
    assert found.usable(PRODUCE, Allowed(3, 7)) == 7
    assert found.usable(PRODUCE, Allowed(10, 12)) is None
    assert found.usable(FETCH) is None and found.highest(FETCH) == -1


def test_older_answers_leave_the_waiting_to_the_broker() -> None:
    assert is_throttled_by(PRODUCE, 6) and not is_throttled_by(PRODUCE, 5)
    assert is_throttled_by(API_VERSIONS, 2) and not is_throttled_by(API_VERSIONS, 1)
    assert not is_throttled_by(OFFSET_FOR_LEADER_EPOCH, 4)
