"""A cluster that is already there, only read: its brokers are asked on the wire, what they answer becomes a trace.

May import: scenarios.check, scenarios.language, scenarios.observe, scenarios.process, scenarios.run.
Open first: cluster_watch.py.
"""
