"""ElectLeaders (43): an operator asks for an election (KIP-183). The controller decides.

0  the preferred leader
1  preferred or unclean (KIP-460); an error of the whole answer
2  flexible
"""

from __future__ import annotations

from cluster.broker.apis.api import Api, answered_by_controller
from cluster.protocol.versions import ELECT_LEADERS

API = Api(
    key=ELECT_LEADERS,
    highest={"2.7": 2, "3.3": 2, "3.5": 2, "3.9": 2, "4.1": 2},
    serve=answered_by_controller(ELECT_LEADERS),
)
