"""PySpark over traces: timelines, verdicts, the report."""
