"""The APIs of a broker: found in the files of `cluster/broker/apis`, by key, and called by the key of a request.

A file named `api_NN_name.py` there, or in a folder there, is an API: `API` in it makes the handler of one broker. It is
imported when the first request of its key comes. source: KafkaApis.handle
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.broker.apis.offered import Ranges, offered_under
from cluster.node import ConnectionId
from cluster.protocol.versions import FORWARDED, GUARDED_WITHOUT_RULES, RequestHeader, api_name, read_request_header
from replica.errors import PeerViolation

if TYPE_CHECKING:
    from cluster.authorization.guards import Guards
    from cluster.broker.apis.api import BrokerParts, Serve
    from cluster.server.responder import Handler

FOLDER: Final = "cluster.broker.apis"


def collect(*folders: str) -> Mapping[int, str]:
    """API key -> its module, in the order of keys, from all files of some packages and of the packages in them.

    raises: ValueError where two files have one key, or a file is not named as its API
    """
    found: dict[int, str] = {}
    for folder in folders:
        root = Path(import_module(folder).__path__[0])
        for path in root.rglob("api_*_*.py"):
            module = ".".join((folder, *path.relative_to(root).with_suffix("").parts))
            key = int(path.stem.split("_")[1])
            if key in found:
                raise ValueError(f"{module} and {found[key]} are both API {key}")
            name = re.sub(r"(?<!^)(?=[A-Z])", "_", api_name(key)).lower()
            if path.stem != f"api_{key:02}_{name}":
                raise ValueError(f"{module} is {api_name(key)}: it should be named api_{key:02}_{name}")
            found[key] = module
    return dict(sorted(found.items()))


APIS: Final = collect(FOLDER)


def serve_of(key: int) -> Serve:
    """What makes the handler of an API."""
    api: Serve = import_module(APIS[key]).API
    return api


class ServedApis:
    """The handlers of one broker, each made for the first request of its key."""

    def __init__(self, broker: BrokerParts) -> None:
        self._broker = broker
        self._handlers: dict[int, Handler | None] = {}
        self._refusals = broker.responder.refusals
        self._guarded = self._guards.keys if broker.access.is_on else GUARDED_WITHOUT_RULES

    @cached_property
    def offered(self) -> Ranges:
        """Those that clients of its era may send, of what is answered here: what the controller answers may be not."""
        ask = self._broker.plane.for_controller
        return {
            key: versions
            for key, versions in offered_under(self._broker.rules).items()
            if key in APIS and (key not in FORWARDED or ask(key) is not None or self._handler(key) is not None)
        }

    @cached_property
    def _guards(self) -> Guards:
        from cluster.authorization.guards import Guards

        return Guards(self._broker.access, self._broker.responder, self._broker.config)

    def _handler(self, key: int) -> Handler | None:
        """None: this broker does not answer it."""
        if key not in self._handlers:
            self._handlers[key] = serve_of(key)(self._broker) if key in APIS else None
        return self._handlers[key]

    def handle(self, connection: ConnectionId, peer: str, frame: bytearray, now_us: int) -> RequestHeader:
        """One request of `peer`; returns what it was. raises: PeerViolation"""
        header = read_request_header(frame)
        handler = self._handlers.get(header.api_key) or self._handler(header.api_key)
        if handler is None:
            raise PeerViolation(f"api {header.api_key} is not served here")
        self._refusals.asked(connection, header, frame)
        if header.api_key in self._guarded:
            left = self._guards.passed(connection, header, frame)
            if left is None:
                return header
            frame = left
        handler(connection, peer, header, frame, now_us)
        return header
