"""PySpark over the traces of runs: tables, verdicts, and the report."""
