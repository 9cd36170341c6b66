"""The ZooKeeper era: the registry with its znodes, and the controller that keeps its state there.

May import: controller.
Open first: kafka_controller.py.
"""
