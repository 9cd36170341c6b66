"""IncrementalAlterConfigs (44): single settings of a topic or broker (KIP-339). The controller decides.

0  first version
1  flexible
"""

from __future__ import annotations

from cluster.broker.apis.api import answered_by_controller
from cluster.protocol.versions import INCREMENTAL_ALTER_CONFIGS

API = answered_by_controller(INCREMENTAL_ALTER_CONFIGS)
