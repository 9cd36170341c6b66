"""The ZooKeeper era: the registry (a simulated ZooKeeper with its znodes), and the controller that stores state there.

May import: controller.
Open first: kafka_controller.py.
"""
