"""ApiVersions 5: a client says which broker of which cluster it means to reach (KIP-1242)."""

import pytest
from broker_world import BrokerWorld

from cluster.broker.apis.offered import offered
from cluster.protocol.versions import API_VERSIONS
from replica.errors import ErrorCode
from replica.ids import CLUSTER_ID
from replica.rules import PROFILES

SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, ErrorCode.NONE),
        (CLUSTER_ID, 1, ErrorCode.NONE),
        (CLUSTER_ID, 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, -1, ErrorCode.INVALID_REQUEST),
        (None, 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_client_that_has_reached_another_broker_is_to_begin_anew(tmp_path, cluster_id, node_id, error):
    world = BrokerWorld(tmp_path, PROFILES["kafka-4.4"]).start()
    world.run(100)
    answer = world.call("c").ask(API_VERSIONS, 5, **SOFTWARE, cluster_id=cluster_id, node_id=node_id)
    assert answer.error_code is error
    found = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    assert found == (dict(offered(PROFILES["kafka-4.4"].release)) if error is ErrorCode.NONE else {})


def test_brokers_before_4_4_do_not_look(tmp_path):
    world = BrokerWorld(tmp_path, PROFILES["kafka-4.3"]).start()
    world.run(100)
    caller = world.call("c")
    caller.send_only(API_VERSIONS, 5, **SOFTWARE, cluster_id="another", node_id=7)
    (answer,) = caller.answers
    assert int.from_bytes(answer[4:6]) == ErrorCode.UNSUPPORTED_VERSION
