"""The brokers of each era offer the APIs observed on brokers of that release, so clients detect the release."""

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS, infer_broker_version_from_api_versions

from cluster.broker.apis.offered import HIGHEST, offered
from cluster.protocol.api_18_api_versions import encode_api_versions_response
from cluster.protocol.cold import decode_response
from cluster.protocol.versions import (
    API_VERSIONS,
    DELETE_GROUPS,
    DESCRIBE_QUORUM,
    FETCH,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    VERSIONS,
)
from controller.features import features
from replica.errors import ErrorCode
from replica.rules import PROFILES, KafkaRelease

OFFERED = list(HIGHEST)
PATCHES = {KafkaRelease(0, 8): (0, 8, 2), KafkaRelease(0, 10): (0, 10, 2)}
SEEN = {rules.release: PATCHES.get(rules.release, tuple(rules.release)) for rules in PROFILES.values()}
NEWEST_SEEN = KafkaRelease(4, 3)
TOKENS = dict.fromkeys((38, 39, 40, 41))
OTHERWISE = {
    KafkaRelease(3, 3): {55: 1, 64: 0, 50: None, 51: None, **TOKENS},
    KafkaRelease(3, 5): {55: 1, 64: 0, **TOKENS},
    KafkaRelease(3, 9): {55: 2, 64: 0, 68: 0, 69: 0, 74: 0, 75: 0, 80: 0, 81: 0},
    KafkaRelease(4, 4): {API_VERSIONS: 5, TXN_OFFSET_COMMIT: 6, DELETE_GROUPS: 3},
}
"""kafka-python's table was read off ZooKeeper-era brokers up to 3.9, and ends with 4.3: KRaft's are otherwise here, and
what 4.4 brought (messages' JSON).
"""


def test_every_era_has_a_release():
    assert sorted(SEEN) == list(SEEN), "the oldest first"
    assert [PROFILES[one.era].changed({"elr": False}).release for one in SEEN] == list(SEEN)


@pytest.mark.parametrize("release", SEEN, ids=str)
def test_highest_versions_are_those_that_kafka_python_saw(release):
    table = BROKER_API_VERSIONS[min(SEEN[release], max(BROKER_API_VERSIONS))]
    seen = {key: high for key, (_, high) in table.items()} | OTHERWISE.get(release, {})
    if release < KafkaRelease(0, 10):
        seen[API_VERSIONS] = 0  # which 0.8 does not have
    told = {key: highest.get(release) for key, highest in HIGHEST.items()}
    assert {key: high for key, high in told.items() if high is not None} == {
        key: high for key, high in seen.items() if key in OFFERED and high is not None
    }


@pytest.mark.parametrize("release", SEEN, ids=str)
def test_only_what_is_spoken_is_offered(release):
    for key, (low, high) in offered(release).items():
        assert VERSIONS[key][0] <= high <= VERSIONS[key][1]
        assert low == (0 if key == PRODUCE else VERSIONS[key][0])


def test_kafka_4_1_offers_all_to_the_number():
    seen = BROKER_API_VERSIONS[4, 1]
    assert dict(offered(KafkaRelease(4, 1))) == {key: seen[key] for key in OFFERED if key in seen}


@pytest.mark.parametrize("release", [release for release in SEEN if release > KafkaRelease(0, 10)])
def test_kafka_python_takes_us_for_the_release(release):
    assert infer_broker_version_from_api_versions(dict(offered(release))) == min(SEEN[release], SEEN[NEWEST_SEEN])


@pytest.mark.parametrize(
    ("release", "produce", "fetch"),
    [(KafkaRelease(0, 8), 3, 4), (KafkaRelease(0, 10), 3, 4), (KafkaRelease(0, 11), 3, 5)],
)
def test_an_era_without_batches_offers_the_first_versions_with_them(release, produce, fetch):
    assert (offered(release)[PRODUCE], offered(release)[FETCH]) == ((0, produce), (4, fetch))


def answer_of(release, version, *, elr=True, transactions="v2"):
    known = features(release, elr=elr, transactions=transactions, groups="consumer")
    frame = encode_api_versions_response(version, 9, offered(release), known, 17)
    return decode_response(API_VERSIONS, version if version <= offered(release)[API_VERSIONS][1] else 0, frame[4:])


def test_a_version_of_api_versions_that_the_era_lacks_is_refused_with_its_range():
    answer = answer_of(KafkaRelease(2, 7), 4)
    assert answer.error_code is ErrorCode.UNSUPPORTED_VERSION
    assert [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys] == [(API_VERSIONS, 0, 3)]


def levels(answer):
    return {one.name: one.max_version_level for one in answer.finalized_features}


@pytest.mark.parametrize(
    ("release", "level"),
    [
        (KafkaRelease(2, 7), None),
        (KafkaRelease(3, 3), 7),
        (KafkaRelease(3, 5), 11),
        (KafkaRelease(3, 9), 21),
        (KafkaRelease(4, 1), 27),
        (KafkaRelease(4, 2), 29),
        (KafkaRelease(4, 3), 30),
        (KafkaRelease(4, 4), 33),
    ],
)
def test_the_metadata_version_is_that_of_the_release(release, level):
    answer = answer_of(release, 3)
    assert levels(answer).get("metadata.version") == level
    assert answer.finalized_features_epoch == (-1 if level is None else 17)


def test_elr_is_a_feature_of_4_1_that_is_on_or_off():
    assert levels(answer_of(KafkaRelease(4, 1), 4))["eligible.leader.replicas.version"] == 1
    assert "eligible.leader.replicas.version" not in levels(answer_of(KafkaRelease(4, 1), 4, elr=False))


@pytest.mark.parametrize(("transactions", "level"), [("v2", 2), ("verified", None), ("v1", None)])
def test_clients_of_4_1_learn_by_which_rules_transactions_run(transactions, level):
    """From transaction.version 2 on a client leaves it to the leader to add a partition (KIP-890)."""
    assert levels(answer_of(KafkaRelease(4, 1), 4, transactions=transactions)).get("transaction.version") == level
    assert "transaction.version" not in levels(answer_of(KafkaRelease(3, 9), 4, transactions="verified"))


def test_a_feature_that_starts_at_0_is_kept_from_older_clients():
    """KAFKA-17492"""
    assert [one.name for one in answer_of(KafkaRelease(4, 1), 3).supported_features] == ["metadata.version"]
    assert len(answer_of(KafkaRelease(4, 1), 4).supported_features) == 5


def test_quorums_are_described_from_kraft_on():
    assert DESCRIBE_QUORUM not in offered(KafkaRelease(2, 7)) and offered(KafkaRelease(3, 3))[DESCRIBE_QUORUM] == (0, 1)
