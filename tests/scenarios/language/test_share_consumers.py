"""`kind: share_consumer`: what its keys mean, and what is refused."""

from __future__ import annotations

import pytest
from small_scenario import HEAD, errors_of, file_of, load, load_whole

from cluster.config import ShareConsumerConfig
from scenarios.language.spec import ChosenRecords
from scenarios.language.write.lock import dump

ERA = "profile: kafka-4.3\n"
MEMBER = "  s1: {kind: share_consumer, topic: t, config: {group.id: g, share.acknowledgement.mode: explicit}}\n"


def test_it_is_written_as_it_is_read() -> None:
    member = MEMBER.replace("topic: t", "topic: t, count: 2, process: 1s, release: r0..r2, reject: 10%, stop: 30s")
    scenario = load(head=ERA + HEAD + member)
    assert [name for name, one in scenario.workloads.items() if one.kind == "share_consumer"] == ["s1-1", "s1-2"]
    first = scenario.workloads["s1-1"]
    assert (first.releases, first.rejects) == (ChosenRecords(("r0", "r1", "r2")), ChosenRecords(ppm=100_000))
    config = first.consumer_config()
    assert isinstance(config, ShareConsumerConfig) and config.share_acknowledgement_mode == "explicit"
    assert load_whole(dump(scenario)).scenario.workloads["s1-1"] == first


@pytest.mark.parametrize(
    ("era", "written", "code", "title"),
    [
        ("profile: kafka-4.1\n", MEMBER, "E120", "share groups need Kafka 4.2 or later"),
        (ERA, MEMBER.replace("group.id: g, ", ""), "E126", "share_consumer `s1` has no `group.id`"),
        (
            ERA,
            MEMBER.replace("topic: t", "topic: t, reject: r0").replace("explicit", "implicit"),
            "E126",
            "share_consumer `s1` accepts all records, so `reject` has no effect",
        ),
        (
            ERA,
            MEMBER.replace("group.id: g", "group.id: g, auto.offset.reset: earliest"),
            "E126",
            "unknown share consumer key `auto.offset.reset`",
        ),
    ],
)
def test_what_no_share_consumer_can_be_is_an_error(era: str, written: str, code: str, title: str) -> None:
    (error,) = errors_of(file_of(head=era + HEAD + written))
    assert (error.code, error.title) == (code, title)
