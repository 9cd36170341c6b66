"""What is wrong with a trace, for those that have not imported Arrow, which reads it."""

from __future__ import annotations


class TraceError(Exception):
    """A trace folder that is not whole, or was written by another version of the schema."""
