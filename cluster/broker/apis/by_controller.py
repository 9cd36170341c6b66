"""APIs that the controller answers, by way of any broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.broker.apis.api import Serve, answered_by_controller
from cluster.broker.apis.refusals import NOT_HERE, Refused, always
from cluster.protocol.versions import (
    ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_QUORUM,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_PARTITION_REASSIGNMENTS,
    UNREGISTER_BROKER,
    UPDATE_FEATURES,
)

APIS: Final[Mapping[int, Serve]] = {
    # CreateTopics (19): topics are made. The controller decides; with ZooKeeper it is the broker that was asked.
    #   2  throttle time: the oldest version that Kafka 4 takes
    #   3  a throttled client is answered first and held back then (KIP-219)
    #   4  -1 stands for the broker's number of partitions and of replicas (KIP-464)
    #   5  flexible; the answer has the settings of the new topic (KIP-525)
    #   6  THROTTLING_QUOTA_EXCEEDED may be the answer (KIP-599)
    #   7  the answer has the id of the new topic (KIP-516)
    # source: ControllerApis.handleCreateTopics, KafkaApis.handleCreateTopicsRequest of the ZooKeeper era
    CREATE_TOPICS: answered_by_controller(CREATE_TOPICS),
    # DeleteTopics (20): topics go, with all of their records. The controller decides.
    #   1  throttle time: the oldest version that Kafka 4 takes
    #   2  a throttled client is answered first and held back then (KIP-219)
    #   3  TOPIC_DELETION_DISABLED may be the answer (KIP-322)
    #   4  flexible
    #   5  error message; THROTTLING_QUOTA_EXCEEDED may be the answer (KIP-599)
    #   6  topics by id (KIP-516)
    DELETE_TOPICS: answered_by_controller(DELETE_TOPICS),
    # AlterConfigs (33): all settings of a topic or broker at once; those not named go back to their defaults (KIP-133).
    #   0  first version
    #   1  a throttled client is answered first and held back then (KIP-219)
    #   2  flexible
    ALTER_CONFIGS: answered_by_controller(ALTER_CONFIGS),
    # CreatePartitions (37): topics get more partitions (KIP-195). The controller decides.
    #   0  first version
    #   1  a throttled client is answered first and held back then (KIP-219)
    #   2  flexible
    #   3  THROTTLING_QUOTA_EXCEEDED may be the answer (KIP-599)
    CREATE_PARTITIONS: answered_by_controller(CREATE_PARTITIONS),
    # ElectLeaders (43): an operator asks for an election (KIP-183). The controller decides.
    #   0  the preferred leader
    #   1  preferred or unclean (KIP-460); an error of the whole answer
    #   2  flexible
    ELECT_LEADERS: answered_by_controller(ELECT_LEADERS),
    # IncrementalAlterConfigs (44): single settings of a topic or broker (KIP-339). The controller decides.
    #   0  first version
    #   1  flexible
    INCREMENTAL_ALTER_CONFIGS: answered_by_controller(INCREMENTAL_ALTER_CONFIGS),
    # AlterPartitionReassignments (45): partitions move to other brokers (KIP-455). The controller decides.
    #   0  first version
    #   1  the request says whether the number of replicas may change (KIP-860)
    ALTER_PARTITION_REASSIGNMENTS: answered_by_controller(ALTER_PARTITION_REASSIGNMENTS),
    # ListPartitionReassignments (46): partitions that are on the move (KIP-455). The controller answers.
    #   0  the only version
    LIST_PARTITION_REASSIGNMENTS: answered_by_controller(LIST_PARTITION_REASSIGNMENTS),
    # DescribeQuorum (55): the controllers, and how far each has the metadata log (KIP-595). The active one answers.
    #   0  first version
    #   1  when each replica last fetched, and last had all (KIP-836)
    #   2  error messages, addresses and directory ids (KIP-853)
    DESCRIBE_QUORUM: answered_by_controller(DESCRIBE_QUORUM),
    # UpdateFeatures (57): the levels of features of the whole cluster (KIP-584), decided by the controller.
    #   0  a level may be lowered
    #   1  how: a safe or an unsafe downgrade; or only a check (KIP-778)
    #   2  all features or none: one error for the whole answer (KIP-1022)
    # source: FeatureControlManager.updateFeatures, QuorumController.updateFeatures
    UPDATE_FEATURES: answered_by_controller(UPDATE_FEATURES, otherwise=Refused(always(NOT_HERE))),
    # UnregisterBroker (64): the cluster forgets a broker (KIP-631).
    #   0  the only version
    UNREGISTER_BROKER: answered_by_controller(UNREGISTER_BROKER),
}
