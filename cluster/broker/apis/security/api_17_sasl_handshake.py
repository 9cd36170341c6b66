"""SaslHandshake (17): a client names its SASL mechanism. Where that is in place, cluster/authentication takes it.

0  first version
1  what follows travels in SaslAuthenticate requests (KIP-152)
"""

from __future__ import annotations

from cluster.broker.apis.refusals import Refused, always
from replica.errors import ErrorCode

API = Refused(always({"error_code": ErrorCode.ILLEGAL_SASL_STATE}))
