"""Who may do what."""

from __future__ import annotations

from mutant import Mutant, mutant

RULES = "controller.access"
CONTROL = "controller.acl_control"
GROUPS = "cluster.authorization.group_guards"
TOPICS = "cluster.authorization.topic_guards"
FORWARDED = "cluster.controller_node.forwarded_requests"
FETCH = "cluster.broker.apis.fetch"
OF_RULES = "test tests/controller/test_acl_rules.py::"
OF_APIS = "test tests/cluster/authorization/test_guards.py::"
OF_LISTENERS = "test tests/cluster/broker/apis/test_listeners_of_brokers.py::"

OF_ACCESS: tuple[Mutant, ...] = (
    mutant(
        "everybody-is-sent-to-the-first-listener",
        "A client is told the addresses of the listener that it came by",
        "controller.image",
        "        if not listener:\n            return self.host, self.port\n",
        "        if True:\n            return self.host, self.port\n",
        OF_LISTENERS + "test_metadata_names_brokers_by_the_listener_that_the_client_came_by[INSIDE]",
        OF_LISTENERS + "test_a_leader_that_is_named_with_an_error_is_too[OUTSIDE]",
    ),
    mutant(
        "clients-are-sent-to-where-brokers-listen",
        "A client is told the address that is advertised for the listener that it came by",
        "cluster.security",
        "Endpoint(item.name, *(addresses[item.name] or {broker: (item.host, item.port)})[broker], item.protocol)",
        "Endpoint(item.name, item.host, item.port, item.protocol)",
        "test tests/scenarios/serve/test_listeners.py::"
        "test_clients_of_a_listener_are_sent_to_the_address_that_is_advertised_for_it",
    ),
    mutant(
        "only-the-first-listener-asks-who-it-is",
        "A listener with SASL serves a client that has logged in, the first or another one",
        "cluster.security",
        "        return not self.is_on if other is None else not other.has_sasl\n",
        "        return not self.is_on if other is None else True\n",
        OF_LISTENERS + "test_who_has_not_logged_in_where_it_has_to_is_not_served",
    ),
    mutant(
        "allowed-before-denied",
        "A rule that forbids comes before all that allow",
        RULES,
        "                if acl.permission_type == Permission.DENY:\n                    return False\n",
        "                if acl.permission_type == Permission.DENY:\n                    continue\n",
        OF_RULES + "test_who_is_forbidden_is_not_allowed",
    ),
    mutant(
        "denied-read-denies-describe",
        "Operations imply others only where they are allowed",
        RULES,
        "        return self.permission_type == Permission.ALLOW and self.operation in IMPLIED_BY.get(operation, ())\n",
        "        return self.operation in IMPLIED_BY.get(operation, ())\n",
        OF_RULES + "test_some_operations_allow_others_and_forbid_only_themselves",
    ),
    mutant(
        "hosts-are-not-compared",
        "A rule of a host holds for that host alone",
        RULES,
        "self.principal in (principal, EVERYBODY) and self.host in (host, WILDCARD)",
        "self.principal in (principal, EVERYBODY)",
        OF_APIS + "test_rules_of_a_host_hold_for_that_host",
    ),
    mutant(
        "a-rule-is-added-twice",
        "A rule that is there already is not added again",
        CONTROL,
        "        if not refusal and event.acl not in self._journal.image.acls:\n",
        "        if not refusal:\n",
        OF_RULES + "test_a_rule_that_is_there_is_not_added_again",
    ),
    mutant(
        "a-follower-is-not-asked",
        "A client that calls itself a follower may not read without CLUSTER_ACTION",
        FETCH,
        "request.replica_id < 0 or self._access.allows_on_cluster(call.connection, Operation.CLUSTER_ACTION)\n",
        "True\n",
        OF_APIS + "test_a_client_that_calls_itself_a_follower_needs_more_than_to_read",
    ),
    mutant(
        "any-topic-is-made",
        "Metadata makes a topic only for a client that may create it",
        TOPICS,
        "    if asked.on_topic(Operation.DESCRIBE, name) and _may_be_made(asked, name):\n",
        "    if asked.on_topic(Operation.DESCRIBE, name):\n",
        OF_APIS + "test_a_topic_is_made_only_for_who_may_create_it",
    ),
    mutant(
        "forwarded-requests-pass",
        "The controller asks for the rights of the client whose request a broker forwards",
        FORWARDED,
        "        if self._super_users is None or client.principal.startswith(NODE):\n",
        "        if True:\n",
        OF_APIS + "test_topics_are_created_and_deleted_by_who_may",
    ),
    mutant(
        "offsets-of-all-topics-are-shown",
        "Who asks for all offsets of a group gets those of topics that it may describe",
        GROUPS,
        '(values, "topics")) if asked.on_topic(Operation.DESCRIBE, str(item["name"]))]\n',
        '(values, "topics"))]\n',
        OF_APIS + "test_offsets_are_committed_and_fetched_by_who_may_read_the_group_and_its_topics",
    ),
)
