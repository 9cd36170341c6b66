"""Authorizes the requests of producers. Source: KafkaApis.scala"""

from __future__ import annotations

from typing import Final

from cluster.authorization.guard import DENIED, NO_GROUP, NO_TOPIC, Inquiry, Passed, Values, Verdict, by_topic, listed
from cluster.authorization.guard import entries as of_entries
from cluster.protocol.entities import Entity
from controller.access import Operation, ResourceType
from controller.topics import is_internal
from replica.errors import ErrorCode

NO_ID: Final = DENIED[ResourceType.TRANSACTIONAL_ID]
_FIRST_OF_MANY: Final = 4
_read_topics: Final = by_topic(Operation.READ)


def _may(asked: Inquiry, operation: Operation, transactional_id: object) -> bool:
    return asked.may(operation, ResourceType.TRANSACTIONAL_ID, str(transactional_id))


def init_producer_id(asked: Inquiry) -> Verdict:
    """Authorize InitProducerId. An idempotent producer needs permission to write any topic (KIP-679)."""
    request = asked.request
    if request.transactional_id is not None:
        return asked.passed(_may(asked, Operation.WRITE, request.transactional_id), NO_ID)
    may_write = asked.on_cluster(Operation.IDEMPOTENT_WRITE) or asked.authorizer.allows_some(
        asked.client, Operation.WRITE, ResourceType.TOPIC
    )
    return asked.passed(may_write, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def add_partitions_to_txn(asked: Inquiry) -> Verdict:
    """Authorize AddPartitionsToTxn.

    From version 4 on, only brokers may send this request. Before, one refused topic makes all others fail.
    """
    request = asked.request
    if asked.header.api_version >= _FIRST_OF_MANY:
        return asked.passed(asked.on_cluster(Operation.CLUSTER_ACTION), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not _may(asked, Operation.WRITE, request.v3_and_below_transactional_id):
        return asked.refusal(NO_ID)

    def error_of(name: str) -> ErrorCode:
        if is_internal(name) or not asked.on_topic(Operation.WRITE, name):
            return NO_TOPIC
        known = name in asked.image.topics
        return ErrorCode.OPERATION_NOT_ATTEMPTED if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    errors = {str(topic.name): error_of(str(topic.name)) for topic in request.v3_and_below_topics}
    if NO_TOPIC not in errors.values():
        return Passed(request)
    return {
        "results_by_topic_v3_and_below": [
            _added(topic, errors[str(topic.name)]) for topic in request.v3_and_below_topics
        ]
    }


def _added(topic: Entity, error: ErrorCode) -> Values:
    results = [{"partition_index": int(number), "partition_error_code": error} for number in topic.partitions]
    return {"name": str(topic.name), "results_by_partition": results}


def add_offsets_to_txn(asked: Inquiry) -> Verdict:
    if not _may(asked, Operation.WRITE, asked.request.transactional_id):
        return asked.refusal(NO_ID)
    return asked.passed(asked.on_group(Operation.READ, str(asked.request.group_id)), NO_GROUP)


def end_txn(asked: Inquiry) -> Verdict:
    return asked.passed(_may(asked, Operation.WRITE, asked.request.transactional_id), NO_ID)


def txn_offset_commit(asked: Inquiry) -> Verdict:
    verdict = add_offsets_to_txn(asked)
    return _read_topics(asked) if isinstance(verdict, Passed) else verdict


def write_txn_markers(asked: Inquiry) -> Verdict:
    may = asked.on_cluster(Operation.ALTER) or asked.on_cluster(Operation.CLUSTER_ACTION)
    return asked.passed(may, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def describe_transactions(asked: Inquiry) -> Verdict:
    """Authorize DescribeTransactions. Topics that the client may not describe are hidden."""

    def denied(name: object) -> Values | None:
        if _may(asked, Operation.DESCRIBE, name):
            return None
        return {"transactional_id": str(name), "error_code": NO_ID}

    verdict = of_entries(asked, "transactional_ids", "transaction_states", denied)
    if not isinstance(verdict, Passed):
        return verdict

    def amend(values: Values) -> Values:
        for state in listed(values, "transaction_states"):
            topics = listed(state, "topics")
            state["topics"] = [topic for topic in topics if asked.on_topic(Operation.DESCRIBE, str(topic["topic"]))]
        return values

    return verdict.amended(amend)


def list_transactions(asked: Inquiry) -> Verdict:
    def amend(values: Values) -> Values:
        states = listed(values, "transaction_states")
        shown = [state for state in states if _may(asked, Operation.DESCRIBE, state["transactional_id"])]
        return {**values, "transaction_states": shown}

    return Passed(asked.request, amend)
