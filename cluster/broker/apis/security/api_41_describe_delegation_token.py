"""DescribeDelegationToken (41): the tokens of some owners (KIP-48).

There are no tokens on a listener without authentication, here as in Kafka.

     1  a throttled client is answered first and held back then (KIP-219): the oldest version that Kafka 4 takes
     2  flexible
     3  who asked for each token (KIP-373)
"""

from __future__ import annotations

from cluster.broker.apis.refusals import NO_TOKENS, Refused, always

API = Refused(always(NO_TOKENS))
