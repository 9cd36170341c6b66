"""IncrementalAlterConfigs (44): single settings of a topic or broker (KIP-339). The controller decides.

0  first version
1  flexible
"""

from __future__ import annotations

from cluster.broker.apis.api import Api, answered_by_controller
from cluster.protocol.versions import INCREMENTAL_ALTER_CONFIGS

API = Api(
    key=INCREMENTAL_ALTER_CONFIGS,
    highest={"2.7": 1, "3.3": 1, "3.5": 1, "3.9": 1, "4.1": 1},
    serve=answered_by_controller(INCREMENTAL_ALTER_CONFIGS),
)
