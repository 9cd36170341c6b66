"""The controller's decisions, pure: brokers and their sessions, topics, partitions, elections, ISR changes,
placement, and the metadata image.
Rooms: quorum/ (KRaft), zookeeper/ (the controller before it).

May import: controller.quorum.
Open first: state.py.
"""
