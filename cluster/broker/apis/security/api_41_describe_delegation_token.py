"""DescribeDelegationToken (41): the tokens of some owners (KIP-48).

There are no tokens on a listener without authentication, here as in Kafka.

     1  a throttled client is answered first and held back then (KIP-219): the oldest version that Kafka 4 takes
     2  flexible
     3  who asked for each token (KIP-373)
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import NO_TOKENS, Refused, always
from cluster.protocol.versions import DESCRIBE_DELEGATION_TOKEN

API = Api(
    key=DESCRIBE_DELEGATION_TOKEN,
    highest={"2.0": 1, "2.1": 1, "2.7": 2, "3.9": 3, "4.1": 3},
    serve=Refused(always(NO_TOKENS)),
)
