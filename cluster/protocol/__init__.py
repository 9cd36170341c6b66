"""Kafka's protocol: bytes in, plain values out, and back; no sockets and no decisions. Produce, Fetch and
ApiVersions have codecs of their own (api_00_, api_01_ with fetch_*_codec, api_18_), whose record bytes stay
where they are; cold.py and entities.py serve every other API from kio's message classes.

May import: cluster, cluster.protocol.zookeeper_era.
Open first: cold.py.
"""
