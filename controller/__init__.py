"""The decisions of the controller, without I/O.

They concern brokers and sessions, topics, partitions, elections, ISR changes, placement and the metadata image.
Subpackages: quorum/ (KRaft), zookeeper/ (the controller before KRaft).

May import: controller.quorum.
Open first: state.py.
"""
