"""What a client may use of a broker."""

from __future__ import annotations

from mutant import Mutant, mutant

PRODUCE = "cluster.broker.apis.produce"
FETCH = "cluster.broker.apis.fetch"
QUOTAS = "cluster.quotas.client_quotas"
LIMITS = "cluster.quotas.client_quotas"
MUTATIONS = "cluster.quotas.mutation_quotas"
CHANNELS = "cluster.server.network_thread"
TEST = "test tests/cluster/broker/apis/test_client_quotas.py::"

OF_QUOTAS: tuple[Mutant, ...] = (
    mutant(
        "throttled-connection-is-read",
        "Nothing is read from a client that has to wait (KIP-219)",
        CHANNELS,
        "                out.append(replace(action, stays_mute=True))\n",
        "                out.append(action)\n",
        TEST + "test_a_producer_above_its_rate_is_answered_at_once_and_mute_for_as_long_as_it_is_told",
    ),
    mutant(
        "producers-are-not-counted",
        "A producer that has used more than its quota has to wait (KIP-13)",
        PRODUCE,
        "self._quotas.produced(connection, header, size_bytes, acks) if self._quotas.is_enabled else 0",
        "0",
        TEST + "test_without_an_answer_the_connection_is_mute_all_the_same",
    ),
    mutant(
        "throttled-consumer-gets-records",
        "A consumer that has to wait gets nothing (KIP-219)",
        FETCH,
        "            if throttle_ms:\n",
        "            if False:\n",
        TEST + "test_a_consumer_above_its_rate_gets_nothing_and_that_does_not_count",
    ),
    mutant(
        "what-was-not-sent-counts",
        "What a consumer did not get does not count against its quota",
        QUOTAS,
        "        if throttle_ms and self._fetch.sensors.is_enabled:\n",
        "        if False:\n",
        TEST + "test_a_consumer_above_its_rate_gets_nothing_and_that_does_not_count",
    ),
    mutant(
        "followers-are-throttled",
        "Fetches of followers have no quota of clients",
        FETCH,
        "        counts = self._quotas.is_enabled and not params.from_follower\n",
        "        counts = self._quotas.is_enabled\n",
        TEST + "test_followers_are_exempt",
    ),
    mutant(
        "the-default-comes-first",
        "The quota of a user's client comes before that of all clients of the user (KIP-55)",
        LIMITS,
        "found = ((user, client_id), (user, None), (None, client_id), (None, None))",
        "found = ((user, None), (user, client_id), (None, client_id), (None, None))",
        "test tests/cluster/quotas/test_limits.py::test_the_most_specific_limit_counts[0]",
    ),
    mutant(
        "mutations-are-never-refused",
        "While the quota of new partitions is exceeded, the next ones are refused (KIP-599)",
        MUTATIONS,
        "        if self._is_strict and bucket.tokens(bound, now_ms) < 0:\n",
        "        if False:\n",
        TEST + "test_new_topics_are_refused_while_the_rate_of_mutations_is_exceeded",
    ),
    mutant(
        "clients-do-not-wait",
        "A client keeps silent for as long as any answer says (KIP-219)",
        "cluster.client.connections",
        "            if throttle_time:\n",
        "            if False:\n",
        "test tests/cluster/client/test_coordinator_requests.py::"
        "test_whatever_the_answer_its_throttle_time_is_kept_to[0-request_0]",
    ),
)
