"""Decodes admin clients' requests, and lists settings as DescribeConfigs returns them.

Brokers answer or forward these requests; controllers make the decisions.

May import: cluster, cluster.broker.metadata, cluster.protocol.
Open first: requests.py.
"""
