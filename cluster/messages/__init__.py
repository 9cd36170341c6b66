"""Between Kafka's messages and the inputs of the cores: what brokers and controllers ask of each other, and
the files that both read.
Rooms: admin/ (what admin clients ask).

May import: cluster, cluster.protocol.
Open first: controller_requests.py.
"""
