"""PySpark jobs that compute tables, verdicts and the report from the traces of runs."""
