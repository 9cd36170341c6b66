"""SaslAuthenticate (36): a step of SASL (KIP-152). Where that is in place, cluster/authentication takes it.

0  first version
1  the answer says how long the session lives (KIP-368)
2  flexible
"""

from __future__ import annotations

from cluster.broker.apis.refusals import Refused, always
from replica.errors import ErrorCode

OUT_OF_PLACE = "SaslAuthenticate request received after successful authentication"

API = Refused(always({"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": OUT_OF_PLACE}))
