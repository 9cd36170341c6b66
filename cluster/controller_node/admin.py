"""The APIs of admin clients at the active controller: read, decided as one, answered once that is committed.

source: ControllerApis.scala
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cluster.messages.admin.cluster_requests import unregister_broker, update_features
from cluster.messages.admin.config_requests import alter_configs, incremental_alter_configs
from cluster.messages.admin.partition_requests import (
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
)
from cluster.messages.admin.quota_requests import alter_client_quotas
from cluster.messages.admin.requests import AdminRequest, RequestEntries
from cluster.messages.admin.security_requests import alter_user_scram_credentials, create_acls, delete_acls
from cluster.messages.admin.topic_requests import create_partitions, create_topics, delete_topics
from cluster.protocol.versions import (
    ALTER_CLIENT_QUOTAS,
    ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_ACLS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_ACLS,
    DELETE_TOPICS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_PARTITION_REASSIGNMENTS,
    UNREGISTER_BROKER,
    UPDATE_FEATURES,
)

READERS: Mapping[int, Callable[[AdminRequest], RequestEntries]] = {
    CREATE_TOPICS: create_topics,
    DELETE_TOPICS: delete_topics,
    CREATE_PARTITIONS: create_partitions,
    ALTER_CONFIGS: alter_configs,
    INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    ELECT_LEADERS: elect_leaders,
    ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments,
    LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
    ALTER_USER_SCRAM_CREDENTIALS: alter_user_scram_credentials,
    ALTER_CLIENT_QUOTAS: alter_client_quotas,
    CREATE_ACLS: create_acls,
    DELETE_ACLS: delete_acls,
    UNREGISTER_BROKER: unregister_broker,
    UPDATE_FEATURES: update_features,
}
