"""DescribeTransactions (65): the state of transactions (KIP-664). Here none is known.

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import Refused, each
from cluster.protocol.versions import DESCRIBE_TRANSACTIONS
from replica.errors import ErrorCode

API = Api(
    key=DESCRIBE_TRANSACTIONS,
    highest={"3.3": 0, "3.5": 0, "3.9": 0, "4.1": 0},
    serve=Refused(
        each(
            "transaction_states",
            "transactional_ids",
            {"error_code": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND},
            transactional_id="",
        )
    ),
)
