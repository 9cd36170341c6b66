"""UnregisterBroker (64): the cluster forgets a broker (KIP-631).

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.api import Api, answered_by_controller
from cluster.protocol.versions import UNREGISTER_BROKER

API = Api(
    key=UNREGISTER_BROKER,
    highest={"3.3": 0, "3.5": 0, "3.9": 0, "4.1": 0},
    serve=answered_by_controller(UNREGISTER_BROKER),
)
