"""Watches an existing Kafka cluster with read-only requests, and turns the responses into a trace.

May import: scenarios.check, scenarios.language, scenarios.observe, scenarios.process, scenarios.run.
Open first: cluster_watch.py.
"""
