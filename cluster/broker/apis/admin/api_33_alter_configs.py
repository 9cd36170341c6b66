"""AlterConfigs (33): all settings of a topic or broker at once; those not named go back to their defaults (KIP-133).

0  first version
1  a throttled client is answered first and held back then (KIP-219)
2  flexible
"""

from __future__ import annotations

from cluster.broker.apis.api import answered_by_controller
from cluster.protocol.versions import ALTER_CONFIGS

API = answered_by_controller(ALTER_CONFIGS)
