"""Which quota is whose. source: ClientQuotaManagerTest"""

import pytest

from cluster.quotas.client_quotas import QuotaLimits
from controller.client_quotas import entity_of

USER_CLIENT = {"user": "u", "client-id": "c"}
EVERY_LEVEL = (
    USER_CLIENT,
    {"user": "u", "client-id": None},
    {"user": "u"},
    {"user": None, "client-id": "c"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "c"},
    {"client-id": None},
)
"""In the order of precedence."""


def limits(*entities):
    """The first has the limit 1, the next one 2, and so on."""
    made = QuotaLimits()
    for number, names in enumerate(entities, 1):
        made.set(entity_of(names), float(number))
    return made


def bound(made, user="u", client_id="c"):
    return made.bound(made.tags(user, client_id))


@pytest.mark.parametrize("first", range(len(EVERY_LEVEL)))
def test_the_most_specific_limit_counts(first):
    assert bound(limits(*EVERY_LEVEL[first:])) == 1.0
    assert bound(limits(EVERY_LEVEL[first])) == 1.0


def test_a_limit_of_others_is_none():
    assert bound(limits({"user": "v"}, {"client-id": "d"}, {"user": "u", "client-id": "d"})) is None
    assert bound(QuotaLimits()) is None


@pytest.mark.parametrize(
    ("names", "shared"),
    [
        ({"client-id": None}, ("", "c")),
        ({"user": None}, ("u", "")),
        (USER_CLIENT, ("u", "c")),
        ({"user": None, "client-id": None}, ("u", "c")),
    ],
)
def test_who_shares_a_measurement_depends_on_the_level(names, shared):
    assert limits(names).tags("u", "c") == shared


def test_with_several_levels_the_one_that_applies_says_who_shares():
    made = limits({"user": "u"}, {"client-id": "c"})
    assert made.tags("u", "c") == ("u", "")
    assert made.tags("v", "c") == ("", "c")


def test_a_quota_that_is_taken_away_leaves_the_next_one_and_its_kind_enabled():
    made = limits(USER_CLIENT, {"user": "u"})
    made.set(entity_of(USER_CLIENT), None)
    assert bound(made) == 2.0
    made.set(entity_of({"user": "u"}), None)
    assert bound(made) is None
    assert made.is_enabled
    assert not QuotaLimits().is_enabled


def test_a_client_without_a_name_has_no_quota_of_clients():
    assert bound(limits({"client-id": None}), client_id="") is None
