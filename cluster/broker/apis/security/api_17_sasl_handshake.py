"""SaslHandshake (17): a client names its SASL mechanism. Where that is in place, cluster/authentication takes it.

0  first version
1  what follows travels in SaslAuthenticate requests (KIP-152)
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import Refused, always
from cluster.protocol.versions import SASL_HANDSHAKE
from replica.errors import ErrorCode

API = Api(
    key=SASL_HANDSHAKE,
    highest={"0.10": 0, "0.11": 0, "2.0": 1, "2.1": 1, "2.7": 1, "3.3": 1, "3.5": 1, "3.9": 1, "4.1": 1},
    serve=Refused(always({"error_code": ErrorCode.ILLEGAL_SASL_STATE})),
)
