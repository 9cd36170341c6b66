"""What operators ask: settings, topics, log directories, quorum. Much of it the controller answers.

May import: cluster, cluster.broker.apis, cluster.broker.replicas, cluster.messages.admin, cluster.protocol.
Open first: api_19_create_topics.py.
"""
