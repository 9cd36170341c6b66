"""UnregisterBroker (64): the cluster forgets a broker (KIP-631).

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.api import answered_by_controller
from cluster.protocol.versions import UNREGISTER_BROKER

API = answered_by_controller(UNREGISTER_BROKER)
