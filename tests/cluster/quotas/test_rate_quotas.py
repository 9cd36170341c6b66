"""How long a client has to wait: Kafka's arithmetic. source: ClientQuotaManagerTest, QuotaUtilsTest"""

from cluster.quotas.client_quotas import INACTIVE_MS, INT32_MAX, RateQuota
from controller.client_quotas import entity_of

CLIENT = entity_of({"client-id": "c"})


def quota(bound, **options):
    made = RateQuota(11, 1, **options)
    made.sensors.set(CLIENT, bound)
    return made


def wait(made, amount, now_ms, client_id="c"):
    exceeded = made.record("u", client_id, amount, now_ms)
    return 0 if exceeded is None else exceeded.throttle_ms


def test_kafkas_own_example():
    """Ten times 400 bytes, once a second, with 500 bytes a second allowed, and then 2,300 in half a second:
    ClientQuotaManagerTest.testQuotaViolation has 6,300 / 10.5 s = 600, and (600 - 500) / 500 * 10.5 s = 2,100 ms."""
    made = quota(500.0)
    assert [wait(made, 400, second * 1000) for second in range(10)] == [0] * 10
    assert wait(made, 2300, 9_500 + 1_000) == 2100
    # When it has waited, what the first two seconds used has gone: 5,500 / 10.6 s.
    assert wait(made, 0, 12_600) == 400


def test_a_burst_counts_as_if_all_windows_but_the_last_had_been_empty():
    made = quota(100.0)
    assert wait(made, 1000, 0) == 0
    assert wait(made, 1, 0) == 10
    assert wait(made, 99, 0) == 1000


def test_everybody_with_the_same_tags_shares_a_quota_and_others_do_not():
    made = quota(100.0)
    assert wait(made, 2000, 0) == 10_000
    assert wait(made, 2000, 0, client_id="d") == 0
    assert wait(made, 0, 0) == 10_000


def test_a_wait_may_be_bounded_by_a_window():
    assert wait(quota(100.0, max_throttle_ms=1000), 1_000_000, 0) == 1000
    assert wait(quota(1e-9), 1_000_000, 0) == INT32_MAX


def test_what_is_taken_back_never_counted():
    made = quota(100.0)
    assert wait(made, 2000, 5) > 0
    made.take_back("u", "c", 2000, 5)
    assert wait(made, 1000, 5) == 0


def test_a_new_limit_holds_for_what_was_used_already():
    made = quota(1000.0)
    assert wait(made, 5000, 0) == 0
    made.sensors.set(CLIENT, 100.0)
    assert wait(made, 0, 0) == 40_000
    made.sensors.set(CLIENT, None)
    assert wait(made, 10**9, 0) == 0


def test_only_the_first_of_several_waits_begins_one():
    made = quota(100.0)
    found = [made.record("u", "c", 2000, 0), made.record("u", "c", 1, 10), made.record("u", "c", 1, 60_000)]
    assert [one is not None and one.begins for one in found] == [True, False, False]
    again = made.record("u", "c", 3000, 60_001)
    assert again is not None
    assert again.begins


def test_one_fetch_may_have_ten_windows():
    """source: ClientQuotaManager.getMaxValueInQuotaWindow"""
    made = quota(100.0)
    assert made.most_at_once("u", "c", 0) == 1000
    assert made.most_at_once("u", "d", 0) == INT32_MAX


def test_measurements_that_nobody_uses_are_forgotten():
    made = quota(100.0)
    made.sensors.set(entity_of({"client-id": None}), 50.0)
    for number in range(100):
        made.record("u", f"c{number}", 1, number)
    made.record("u", "late", 1, INACTIVE_MS + 49)
    assert len(made.sensors) == 51
