"""Performs `fail` steps: brokers answer the next requests of an API with an error or late, or close the connection."""

from __future__ import annotations

from collections.abc import Callable

from cluster.protocol.versions import api_key
from cluster.request_faults import RequestFault
from replica.errors import ErrorCode
from replica.wording import listed
from scenarios.language.selectors import Selector
from scenarios.language.verbs.requests import Fail
from scenarios.run.cluster_under_test import ClusterUnderTest
from scenarios.run.disk_faults import Done, Nodes, performs


class RequestFaultSteps:
    """Performs the steps that inject faults of requests. `resolve` selects a step's brokers when it fires."""

    def __init__(self, cluster: ClusterUnderTest, resolve: Callable[[Selector], Nodes]) -> None:
        self._rules = cluster.network.request_faults.rules
        self._servers = (*cluster.scenario.cluster.controllers, *cluster.scenario.cluster.brokers)
        self._resolve = resolve
        self._begun = 0

    @performs(Fail)
    async def _fail(self, name: str, payload: Fail) -> Done:
        nodes = self._resolve(payload.broker)
        self._begun += 1
        rule = RequestFault(
            fault=name,
            api=api_key(payload.api),
            brokers=nodes,
            spared=self._servers,
            partitions=payload.partitions,
            errors=tuple(ErrorCode[error] for error in payload.errors),
            rounds=payload.times,
            is_applied=payload.is_applied,
            delay_us=payload.delay_us,
            throttle_ms=payload.throttle_us // 1000,
            close=payload.close,
            number=self._begun,
        )
        self._rules.append(rule)

        async def undo() -> str:
            self._rules.remove(rule)
            return f"{listed(nodes)} answered {payload.api} as before again"

        return Done(nodes, payload.effect(listed(nodes)), undo, requests=payload.requests)
