"""Errors that older versions of an API do not have."""

from __future__ import annotations

from replica.errors import ErrorCode

FIRST_WITH_PRODUCER_FENCED = 2
"""Of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn (KIP-588)."""


def error_in(version: int, error: ErrorCode) -> ErrorCode:
    """As that version of these three calls it."""
    if error is ErrorCode.PRODUCER_FENCED and version < FIRST_WITH_PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
