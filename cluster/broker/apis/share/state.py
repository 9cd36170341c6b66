"""The APIs through which brokers use the share coordinator: InitializeShareGroupState (83), ReadShareGroupState (84),
WriteShareGroupState (85), DeleteShareGroupState (86), ReadShareGroupStateSummary (87).

0  first version
1  (85, 87) the number of records at or above the start offset whose delivery is complete (KIP-1226)

Source: ShareCoordinatorService.java
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cluster.broker.apis.api import ApiHandler, BrokerParts, Serve, Values
from cluster.broker.apis.share.groups import by_topic, where_shares_are_on
from cluster.coordinators.core import RequestId
from cluster.protocol import versions
from cluster.protocol.entities import NO_ID, Entity
from cluster.server.responder import Call, Handler
from cluster.share.coordinator import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    ShareRequest,
    ShareResult,
    WriteState,
)
from cluster.share.state import NO_COUNT, ShareKey, ShareState, batches_from, batches_to_send
from replica.errors import ErrorCode

MakeInput = Callable[[int, RequestId, ShareKey, Entity], ShareRequest]
"""Returns the coordinator's input for one partition of a request: (now_us, request id, key, partition's entry)."""
Show = Callable[[ShareState], Values]
"""Returns the response's fields of a share partition's state."""


class _StateHandler(ApiHandler):
    """Handler of one of these APIs. It responds when the coordinator has answered for every partition."""

    def __init__(self, broker: BrokerParts, make_input: MakeInput, show: Show) -> None:
        super().__init__(broker)
        self._make_input = make_input
        self._show = show

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        asked = {
            ShareKey(str(request.group_id), topic.topic_id or NO_ID, int(item.partition)): item
            for topic in request.topics
            for item in topic.partitions
        }
        results: dict[ShareKey, ShareResult] = {}
        if not asked:
            self._answer(call, results=[])

        def enter(key: ShareKey, partition: Entity) -> None:
            def respond(result: ShareResult) -> None:
                results[key] = result
                if len(results) == len(asked):
                    self._answer(call, results=self._results(results))

            self._broker.coordinators.share_states.submit(
                call.connection,
                lambda number: self._make_input(call.now_us, number, key, partition),
                respond,
                call.now_us,
            )

        for key, partition in asked.items():
            enter(key, partition)

    def _results(self, results: Mapping[ShareKey, ShareResult]) -> list[Values]:
        topics: dict[object, list[Values]] = {}
        for key, result in results.items():
            shown = self._show(result.state) if result.error is ErrorCode.NONE else {}
            values = {"partition": key.partition, "error_code": result.error, "error_message": result.message, **shown}
            topics.setdefault(key.topic_id, []).append(values)
        return by_topic(topics)


def _initialize(now_us: int, request: RequestId, key: ShareKey, asked: Entity) -> ShareRequest:
    return InitializeState(
        now_us=now_us,
        request=request,
        key=key,
        state_epoch=int(asked.state_epoch),
        start_offset=int(asked.start_offset),
    )


def _read(now_us: int, request: RequestId, key: ShareKey, asked: Entity) -> ShareRequest:
    return ReadState(now_us=now_us, request=request, key=key, leader_epoch=int(asked.leader_epoch))


def _write(now_us: int, request: RequestId, key: ShareKey, asked: Entity) -> ShareRequest:
    return WriteState(
        now_us=now_us,
        request=request,
        key=key,
        state_epoch=int(asked.state_epoch),
        leader_epoch=int(asked.leader_epoch),
        start_offset=int(asked.start_offset),
        delivery_complete=int(getattr(asked, "delivery_complete_count", NO_COUNT)),
        batches=batches_from(asked.state_batches),
    )


def _delete(now_us: int, request: RequestId, key: ShareKey, asked: Entity) -> ShareRequest:
    return DeleteState(now_us=now_us, request=request, key=key)


def _read_summary(now_us: int, request: RequestId, key: ShareKey, asked: Entity) -> ShareRequest:
    return ReadSummary(now_us=now_us, request=request, key=key)


def _nothing(state: ShareState) -> Values:
    return {}


def _state(state: ShareState) -> Values:
    return {
        "state_epoch": state.state_epoch,
        "start_offset": state.start_offset,
        "state_batches": batches_to_send(state.batches),
    }


def _summary(state: ShareState) -> Values:
    return {
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": state.start_offset,
        "delivery_complete_count": state.delivery_complete,
    }


def _serve(make_input: MakeInput, show: Show = _nothing) -> Callable[[BrokerParts], Handler]:
    return lambda broker: _StateHandler(broker, make_input, show)


APIS: Final[Mapping[int, Serve]] = where_shares_are_on(
    {
        versions.INITIALIZE_SHARE_GROUP_STATE: _serve(_initialize),
        versions.READ_SHARE_GROUP_STATE: _serve(_read, _state),
        versions.WRITE_SHARE_GROUP_STATE: _serve(_write),
        versions.DELETE_SHARE_GROUP_STATE: _serve(_delete),
        versions.READ_SHARE_GROUP_STATE_SUMMARY: _serve(_read_summary, _summary),
    }
)
