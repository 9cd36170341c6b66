"""DescribeQuorum (55): the controllers, and how far each has the metadata log (KIP-595). The active one answers.

0  first version
1  when each replica last fetched, and last had all (KIP-836)
2  error messages, addresses and directory ids (KIP-853)
"""

from __future__ import annotations

from cluster.broker.apis.api import answered_by_controller
from cluster.protocol.versions import DESCRIBE_QUORUM

API = answered_by_controller(DESCRIBE_QUORUM)
