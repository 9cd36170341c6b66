"""RenewDelegationToken (39): a token lives longer (KIP-48).

There are no tokens on a listener without authentication, here as in Kafka.

     1  a throttled client is answered first and held back then (KIP-219): the oldest version that Kafka 4 takes
     2  flexible
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import NO_TOKENS, Refused, always
from cluster.protocol.versions import RENEW_DELEGATION_TOKEN

API = Api(
    key=RENEW_DELEGATION_TOKEN,
    highest={"2.0": 1, "2.1": 1, "2.7": 2, "3.9": 2, "4.1": 2},
    serve=Refused(always(NO_TOKENS)),
)
