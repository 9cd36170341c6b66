"""Partitions that a client may create and delete. source: ControllerMutationQuotaManagerTest, TokenBucketTest"""

from cluster.quotas.mutation_quotas import MutationQuotas, TokenBucket
from controller.client_quotas import entity_of

SECOND = 1_000_000
CLIENT = entity_of({"client-id": "c"})


def quotas(rate):
    made = MutationQuotas(11, 1)
    made.follow({CLIENT: {"controller_mutation_rate": rate, "producer_byte_rate": 5.0}})
    return made


def test_a_bucket_fills_up_to_its_burst():
    """TokenBucketTest: a quota of 5 a second and a burst of ten seconds"""
    bucket = TokenBucket(10)
    assert bucket.tokens(5.0, 0) == 50
    bucket.take(60, 5.0, 0)
    assert bucket.tokens(5.0, 0) == -10
    assert bucket.tokens(5.0, 2000) == 0
    assert bucket.tokens(5.0, 2200) == 1
    assert bucket.tokens(5.0, 100_000) == 50
    bucket.take(-100, 5.0, 100_000)
    assert bucket.tokens(5.0, 100_000) == 50


def test_a_strict_quota_lets_the_change_pass_that_exceeds_it_and_refuses_the_next():
    """The first takes 110 of 11 s at 10 a second; 100 missing partitions are 10 s."""
    made = quotas(10.0)
    first = made.of("u", "c", 0, is_strict=True)
    assert first.record(210, 0)
    assert first.throttle_ms == 0
    next_one = made.of("u", "c", SECOND, is_strict=True)
    assert not next_one.record(1, SECOND)
    assert next_one.throttle_ms == 9000
    assert made.of("u", "c", 10 * SECOND, is_strict=True).record(1, 10 * SECOND)


def test_a_permissive_quota_only_makes_wait():
    made = quotas(10.0)
    first = made.of("u", "c", 0, is_strict=False)
    assert first.record(210, 0)
    assert first.throttle_ms == 10_000
    assert first.record(10, 0)
    assert first.throttle_ms == 11_000


def test_others_are_not_limited():
    made = quotas(1.0)
    other = made.of("u", "d", 0, is_strict=True)
    assert all(other.record(1000, 0) for _ in range(3))
    assert other.throttle_ms == 0


def test_without_such_a_quota_there_is_nothing_to_count():
    made = MutationQuotas(11, 1)
    assert made.of("u", "c", 0, is_strict=True) is None
    made.follow({CLIENT: {"producer_byte_rate": 5.0}})
    assert made.of("u", "c", 0, is_strict=True) is None
    made.follow({CLIENT: {"controller_mutation_rate": 5.0}})
    made.follow({})
    assert made.of("u", "c", 0, is_strict=True).record(10**6, 0)
