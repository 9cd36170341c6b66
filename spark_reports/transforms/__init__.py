"""Definitions over the trace, each a pure function DataFrame -> DataFrame: no session, no files."""
