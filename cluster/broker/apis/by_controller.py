"""APIs that the controller answers through any broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.broker.apis.api import Serve, answered_by_controller
from cluster.broker.apis.refusals import NOT_HERE, Refused, always
from cluster.protocol import versions

APIS: Final[Mapping[int, Serve]] = {
    # CreateTopics (19): create topics. The controller decides; with ZooKeeper, the broker that gets the request.
    #   2  throttle time: the oldest version that Kafka 4 accepts
    #   3  a throttled client gets its response before the delay (KIP-219)
    #   4  -1 stands for the broker's number of partitions and of replicas (KIP-464)
    #   5  flexible; the response has the settings of the new topic (KIP-525)
    #   6  THROTTLING_QUOTA_EXCEEDED is a possible error (KIP-599)
    #   7  the response has the id of the new topic (KIP-516)
    # source: ControllerApis.handleCreateTopics, KafkaApis.handleCreateTopicsRequest of the ZooKeeper era
    versions.CREATE_TOPICS: answered_by_controller(versions.CREATE_TOPICS),
    # DeleteTopics (20): delete topics with all of their records. The controller decides.
    #   1  throttle time: the oldest version that Kafka 4 accepts
    #   2  a throttled client gets its response before the delay (KIP-219)
    #   3  TOPIC_DELETION_DISABLED is a possible error (KIP-322)
    #   4  flexible
    #   5  error message; THROTTLING_QUOTA_EXCEEDED is a possible error (KIP-599)
    #   6  topics by id (KIP-516)
    versions.DELETE_TOPICS: answered_by_controller(versions.DELETE_TOPICS),
    # AlterConfigs (33): replace all settings of a topic or broker; settings left out get their defaults (KIP-133).
    #   0  first version
    #   1  a throttled client gets its response before the delay (KIP-219)
    #   2  flexible
    versions.ALTER_CONFIGS: answered_by_controller(versions.ALTER_CONFIGS),
    # CreatePartitions (37): add partitions to topics (KIP-195). The controller decides.
    #   0  first version
    #   1  a throttled client gets its response before the delay (KIP-219)
    #   2  flexible
    #   3  THROTTLING_QUOTA_EXCEEDED is a possible error (KIP-599)
    versions.CREATE_PARTITIONS: answered_by_controller(versions.CREATE_PARTITIONS),
    # ElectLeaders (43): elect leaders, for an operator (KIP-183). The controller decides.
    #   0  the preferred leader
    #   1  preferred or unclean (KIP-460); a top-level error
    #   2  flexible
    versions.ELECT_LEADERS: answered_by_controller(versions.ELECT_LEADERS),
    # IncrementalAlterConfigs (44): change single settings of a topic or broker (KIP-339). The controller decides.
    #   0  first version
    #   1  flexible
    versions.INCREMENTAL_ALTER_CONFIGS: answered_by_controller(versions.INCREMENTAL_ALTER_CONFIGS),
    # AlterPartitionReassignments (45): move partitions to other brokers (KIP-455). The controller decides.
    #   0  first version
    #   1  the request says whether the number of replicas may change (KIP-860)
    versions.ALTER_PARTITION_REASSIGNMENTS: answered_by_controller(versions.ALTER_PARTITION_REASSIGNMENTS),
    # ListPartitionReassignments (46): list partitions that are being moved (KIP-455). The controller answers.
    #   0  the only version
    versions.LIST_PARTITION_REASSIGNMENTS: answered_by_controller(versions.LIST_PARTITION_REASSIGNMENTS),
    # DescribeQuorum (55): describe the controllers and their log end offsets (KIP-595). The active controller answers.
    #   0  first version
    #   1  the times at which each replica last fetched, and last was caught up (KIP-836)
    #   2  error messages, addresses and directory ids (KIP-853)
    versions.DESCRIBE_QUORUM: answered_by_controller(versions.DESCRIBE_QUORUM),
    # UpdateFeatures (57): set the cluster's feature levels (KIP-584). The controller decides.
    #   0  a level may be lowered
    #   1  a safe or an unsafe downgrade, or only a validation (KIP-778)
    #   2  all features or none: one error for the whole answer (KIP-1022)
    # source: FeatureControlManager.updateFeatures, QuorumController.updateFeatures
    versions.UPDATE_FEATURES: answered_by_controller(versions.UPDATE_FEATURES, otherwise=Refused(always(NOT_HERE))),
    # UnregisterBroker (64): remove the registration of a broker (KIP-631).
    #   0  the only version
    versions.UNREGISTER_BROKER: answered_by_controller(versions.UNREGISTER_BROKER),
    # AddRaftVoter (80): a controller becomes a voter of the quorum (KIP-853). The active controller decides.
    #   0  first version
    #   1  answered when it is in the leader's log, or when it is committed (KIP-1186)
    versions.ADD_RAFT_VOTER: answered_by_controller(versions.ADD_RAFT_VOTER),
    # RemoveRaftVoter (81): a controller is no longer a voter (KIP-853).
    #   0  the only version
    versions.REMOVE_RAFT_VOTER: answered_by_controller(versions.REMOVE_RAFT_VOTER),
}
