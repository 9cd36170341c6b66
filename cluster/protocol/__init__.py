"""Encodes and decodes Kafka's protocol, without sockets and without a broker's decisions.

Produce and Fetch have their own codecs (api_00_produce.py, fetch_*_codec.py), which do not copy decoded records.
cold.py and entities.py encode and decode all other APIs with kio's message classes.

May import: cluster.
Open first: cold.py.
"""
