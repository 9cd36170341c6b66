"""AlterConfigs (33): all settings of a topic or broker at once; those not named go back to their defaults (KIP-133).

0  first version
1  a throttled client is answered first and held back then (KIP-219)
2  flexible
"""

from __future__ import annotations

from cluster.broker.apis.api import Api, answered_by_controller
from cluster.protocol.versions import ALTER_CONFIGS

API = Api(
    key=ALTER_CONFIGS,
    highest={"0.11": 0, "2.0": 1, "2.1": 1, "2.7": 1, "3.3": 2, "3.5": 2, "3.9": 2, "4.1": 2},
    serve=answered_by_controller(ALTER_CONFIGS),
)
