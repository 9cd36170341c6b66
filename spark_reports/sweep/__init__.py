"""Sweeps: many simulated runs as a Spark job, their rows as Parquet, and what they say about each setting."""
