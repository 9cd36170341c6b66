"""Watches an existing cluster by reading only: brokers are asked over Kafka's protocol, and answers become a trace.

May import: scenarios.check, scenarios.language, scenarios.observe, scenarios.process, scenarios.run.
Open first: cluster_watch.py.
"""
