"""franz-go, a client in Go, unmodified, against a live cluster: acks, codecs, groups, transactions.

`go build -o PROGRAM .` in this folder makes the program; HIGHWATER_GO_CLIENT names it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from live_cluster import SMALL_COORDINATORS, live_cluster

from replica.trace.events import OffsetCommitted

PROGRAM = os.environ.get("HIGHWATER_GO_CLIENT", "")
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        not PROGRAM,
        reason="the client in Go is not installed here: go build -o PROGRAM . in tests/live/go_client, "
        "HIGHWATER_GO_CLIENT=PROGRAM",
    ),
]


@pytest.mark.parametrize("profile", ["kafka-3.5", "kafka-3.9", "kafka-4.1"])
def test_a_go_application_commits_aborts_is_fenced_and_transforms(tmp_path: Path, profile: str) -> None:
    topics = ("plain:1:3", "orders:1:3", "bills:1:3")
    with live_cluster(tmp_path, *topics, settings=SMALL_COORDINATORS, profile=profile) as cluster:
        done = subprocess.run([PROGRAM, cluster.bootstrap], text=True, capture_output=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        committed = [event for event in cluster.events(OffsetCommitted) if event.group == "billing"]
    said = [json.loads(line) for line in done.stdout.splitlines()]
    zombie = said.pop(3)
    assert [tuple(line.values()) for line in said] == [
        (21, "plain"),
        (["a", "b", "d"], "committed"),
        (["a", "b", "c", "d"], "uncommitted"),
        (False, "transform"),
        (True, "transform"),
        (["s", "A", "B", "D"], "bills committed"),
    ]
    assert zombie["what"] == "zombie" and zombie["found"] in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
    assert [event.offset for event in committed] == [6]
