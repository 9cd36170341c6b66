"""Sweeps: simulate many runs on Spark, store a row per run as Parquet, and summarize the rows by setting."""
