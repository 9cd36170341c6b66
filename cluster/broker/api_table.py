"""The APIs of a broker: found in the files of `cluster/broker/apis`, by key, and called by the key of a request.

A file named `api_NN_name.py` there, or in a folder there, is an API: it declares `API`. source: KafkaApis.handle
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Final

from cluster.authorization.guards import Guards
from cluster.broker.apis.api import Api, BrokerParts, Ranges
from cluster.node import ConnectionId
from cluster.protocol.headers import RequestHeader, read_request_header
from cluster.protocol.versions import (
    END_TXN,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    VERSIONS,
    api_name,
)
from replica.errors import PeerViolation
from replica.rules import Rules

FOLDER: Final = "cluster.broker.apis"


def collect(*folders: str) -> Mapping[int, Api]:
    """API key -> API, in the order of keys, from all files of some packages and of the packages in them.

    raises: ValueError where two files have one key, or a file is not named as its API
    """
    found: dict[int, tuple[Api, str]] = {}
    for module in (name for folder in folders for name in _files(folder)):
        api: Api = import_module(module).API
        if api.key in found:
            raise ValueError(f"{module} and {found[api.key][1]} both declare API {api.key}")
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", api_name(api.key)).lower()
        if module.rpartition(".")[2] != f"api_{api.key:02}_{name}":
            raise ValueError(f"{module} declares {api_name(api.key)}: it should be named api_{api.key:02}_{name}")
        found[api.key] = api, module
    return MappingProxyType({key: api for key, (api, _) in sorted(found.items())})


def _files(folder: str) -> Iterator[str]:
    for _, name, is_folder in sorted(iter_modules(import_module(folder).__path__), key=lambda one: one.name):
        if is_folder:
            yield from _files(f"{folder}.{name}")
        elif name.startswith("api_"):
            yield f"{folder}.{name}"


APIS: Final = collect(FOLDER)
FIRST_METADATA_WITH_RELIABLE_EPOCHS: Final = 9
"""A consumer that is to compare positions with leader epochs learns them from it."""


def offered(release: str) -> Ranges:
    """API key -> (lowest, highest version) that a broker of a release offers clients, of what is answered here.

    Simplified: records have format 2 in every era (Produce 3, Fetch 4), so 0.8 and 0.10 offer those in place of older
    ones, and 0.8, which knows no ApiVersions, answers it. A version that is not offered and can be read is answered all
    the same. source: ApiKeys.java and the messages' JSON of each release, ApiVersionsResponse.filterApis
    """
    ranges = ((key, api.offered(release)) for key, api in APIS.items())
    return {key: found for key, found in ranges if found is not None}


def offered_under(rules: Rules) -> Ranges:
    """As brokers of the rules' release, and what a newer rule needs of its clients.

    As followers' requests do (FetcherContext.fetch_version): a rule may be newer than the release.
    """
    needed = {
        (PRODUCE, 11): rules.transactions in ("verified", "v2"),
        (TXN_OFFSET_COMMIT, 4): rules.transactions in ("verified", "v2"),
        (PRODUCE, 12): rules.transactions == "v2",
        (TXN_OFFSET_COMMIT, 5): rules.transactions == "v2",
        (END_TXN, 5): rules.transactions == "v2",
        (METADATA, FIRST_METADATA_WITH_RELIABLE_EPOCHS): rules.consumer_truncation_check,
        (OFFSET_FOR_LEADER_EPOCH, 3): rules.consumer_truncation_check,
    }
    ranges = dict(offered(rules.release))
    for (key, version), is_needed in needed.items():
        if is_needed:
            low, high = ranges.get(key, VERSIONS[key])
            ranges[key] = low, max(high, version)
    return ranges


class ServedApis:
    """The handlers of one broker. offered: those that clients of its era may send."""

    def __init__(self, broker: BrokerParts) -> None:
        made = ((key, api.serve(broker)) for key, api in APIS.items())
        self._handlers = {key: handler for key, handler in made if handler is not None}
        self._guards = Guards(broker.access, broker.responder, broker.config)
        self._refusals = broker.responder.refusals
        self.offered = {key: found for key, found in offered_under(broker.rules).items() if key in self._handlers}

    def handle(self, connection: ConnectionId, peer: str, frame: bytearray, now_us: int) -> RequestHeader:
        """One request of `peer`; returns what it was. raises: PeerViolation"""
        header = read_request_header(frame)
        handler = self._handlers.get(header.api_key)
        if handler is None:
            raise PeerViolation(f"api {header.api_key} is not served here")
        self._refusals.asked(connection, header, frame)
        if header.api_key in self._guards.keys:
            left = self._guards.passed(connection, header, frame)
            if left is None:
                return header
            frame = left
        handler(connection, peer, header, frame, now_us)
        return header
