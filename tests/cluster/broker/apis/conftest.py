"""A controller, brokers 1 and 2, and a client of broker 1."""

import pytest
from broker_world import B2, BrokerWorld


@pytest.fixture
def world(tmp_path):
    world = BrokerWorld(tmp_path, auto_create_topics_enable="true").start()
    world.run(100)
    world.join(B2)
    return world


@pytest.fixture
def admin(world):
    return world.call("admin")
