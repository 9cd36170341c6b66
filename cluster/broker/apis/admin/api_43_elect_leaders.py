"""ElectLeaders (43): an operator asks for an election (KIP-183). The controller decides.

0  the preferred leader
1  preferred or unclean (KIP-460); an error of the whole answer
2  flexible
"""

from __future__ import annotations

from cluster.broker.apis.api import answered_by_controller
from cluster.protocol.versions import ELECT_LEADERS

API = answered_by_controller(ELECT_LEADERS)
