"""An application that consumes, transforms and produces: a consumer in a group and a producer in one process.

May import: cluster, cluster.client, cluster.client.consumer, cluster.client.producer.
Open first: transform.py.
"""
