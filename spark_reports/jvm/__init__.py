"""Spark's JVM: how it begins, how it is spoken to, and why it ended. session.py makes a session of it.

Open first: gateway.py.
"""
