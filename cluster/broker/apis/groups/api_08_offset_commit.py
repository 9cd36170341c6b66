"""OffsetCommit (8): a group keeps how far it has come. source: KafkaApis.handleOffsetCommitRequest

2  how long to keep the offsets: the oldest version that Kafka 4 takes
3  throttle time
4  a throttled client is answered first and held back then (KIP-219)
5  how long they are kept is the broker's setting alone (KIP-211)
6  leader epochs (KIP-320)
7  group.instance.id: a static member (KIP-345)
8  flexible
9  members of KIP-848's groups; GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH may be the answer
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.groups.partition_answers import commits_of, error_of_each, instance_id_of
from cluster.groups.inputs import CommitOffsets, CommitResult, Result
from cluster.groups.state.offsets import NO_EXPIRY
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader

DEFAULT_RETENTION = -1
FIRST_WITH_MEMBER_EPOCHS = 9


class OffsetCommitHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.groups
        self._cache = broker.cache
        self._clock = broker.clock
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        now_ms = self._clock.at(now_us) // 1000
        retention = getattr(request, "retention_time", None)
        expires_ms = NO_EXPIRY
        if retention is not None and cold.milliseconds(retention) != DEFAULT_RETENTION:
            expires_ms = now_ms + cold.milliseconds(retention)
        names, offsets = commits_of(request, self._cache, now_ms, expires_ms)
        if not offsets:
            self._answer(connection, header, topics=error_of_each(names, {}))
            return

        def make_input(number: int) -> CommitOffsets:
            return CommitOffsets(
                now_us=now_us,
                request=number,
                group_id=str(request.group_id),
                generation=int(request.generation_id_or_member_epoch),
                member_id=str(request.member_id),
                instance_id=instance_id_of(request),
                offsets=offsets,
                knows_epochs=header.api_version >= FIRST_WITH_MEMBER_EPOCHS,
            )

        def answer(result: Result) -> None:
            assert isinstance(result, CommitResult)
            self._answer(connection, header, topics=error_of_each(names, result.errors))

        self._service.submit(connection, make_input, answer, now_us)


API = OffsetCommitHandler
