"""Sweeps: many simulated runs as a Spark job, their rows as Parquet, and the results of each setting."""
