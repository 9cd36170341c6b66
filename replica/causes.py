"""Why things happen, in Kafka's terms: what cores decide by, and the column `cause` of the trace.

A cause is a word, and the numbers and names that decided stand beside it in the event. spark_reports/TABLES.md lists
all of them: those who query a trace rely on the words.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Cause(StrEnum):
    """Base of the lists of causes: `WORD = "word", "what it means"`."""

    meaning: str

    def __new__(cls, word: str, meaning: str = "") -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        return member


# ----------------------------------------------------------------------------------------------------- in-sync replicas


class IsrCause(Cause):
    """Why a leader proposes another ISR."""

    CAUGHT_UP = "caught_up", "a follower has reached the high watermark, and the start of the leader's epoch"
    LAG = "lag", "a member has not caught up within replica.lag.time.max.ms, or is no replica any more"
    RETRY = "retry", "the controller did not answer, or answered with an error that leaves the proposal open"


class LagCause(Cause):
    """Why a member is out of sync."""

    NOT_CAUGHT_UP = "not_caught_up", "it had all records last at a time longer ago than replica.lag.time.max.ms"
    NEVER_CAUGHT_UP = "never_caught_up", "it has not had all records since this leader leads"
    NOT_FETCHING = "not_fetching", "to 0.8: it has not fetched for longer than replica.lag.time.max.ms"
    BEHIND = "behind", "to 0.8: it is more than replica.lag.max.messages behind"
    NOT_ASSIGNED = "not_assigned", "it is no replica any more"


class HighWatermarkCause(Cause):
    """Why a follower's high watermark became what it is."""

    LEADER = "leader", "it is the leader's"
    LOG_END = "log_end", "the leader's is beyond the end of the follower's log"
    LOG_START = "log_start", "the leader's is before the start of the follower's log"
    CUT = "cut", "the follower has cut its log back"
    STARTED_ANEW = "started_anew", "the follower has dropped its log, and starts where the leader's does"


# ---------------------------------------------------------------------------------------------------------------- logs


class DeletionCause(Cause):
    """Why a broker deletes its replica of a partition."""

    TOPIC_DELETED = "topic_deleted", "the topic was deleted"
    NOT_ASSIGNED = "not_assigned", "the broker is no replica any more"


class RetentionCause(Cause):
    """By which setting records have expired."""

    SIZE = "size", "retention.bytes: the log is large enough without them"
    TIME = "time", "retention.ms: all records of their segments are older"


# -------------------------------------------------------------------------------------------------- network and servers


class ConnectionEnd(Cause):
    """How a connection ended, as one side of it sees that; the meaning stands in sentences."""

    CLOSED = "closed", "closed by the other side"
    RESET = "reset", "reset by the other side"
    TORN = "torn", "a segment file ended before the bytes its frame had promised"
    TLS_FAILED = "tls_failed", "ended by a failure of TLS"
    GIVEN_UP = "given_up", "closed by this side, which reads no further"


class DropCause(Cause):
    """Why a message that a hold or a cut had kept back will never arrive."""

    CONNECTION_ENDED = "connection_ended", "its connection has ended"
    CONNECTION_CLOSED = "connection_closed", "its sender has closed the connection behind a cut"
    CONNECTION_RESET = "connection_reset", "its sender has reset the connection behind a cut"
    NOT_SENT = "not_sent", "its sender ended before it had sent the body"
    POWER_LOST = "power_lost", "its sender has lost power"
    PROCESS_GONE = "process_gone", "it was in the memory of its sender's process, which has ended"


class CloseCause(Cause):
    """Why a node closed a connection that another one had opened."""

    VIOLATION = "violation", "a frame or a request breaks the protocol"
    REQUEST_TOO_LARGE = "request_too_large", "a request has more than socket.request.max.bytes"
    REQUEST_MEMORY = "request_memory", "requests that come in take too much memory, and its own stalled for longest"
    TOO_MANY = "too_many", "there are max.connections.per.ip from its address already"
    IDLE = "idle", "nothing moved on it for connections.max.idle.ms"
    NODES_ONLY = "nodes_only", "only nodes of the cluster may connect here"
    NO_SECRET = "no_secret", "it has the address of a node, and does not know the secret of the run"
    AUTHENTICATION_FAILED = "authentication_failed", "it did not prove who it is"
    SESSION_OVER = "session_over", "its session is over, and it has not authenticated again"
    BUG = "bug", "closed after a bug"
    ANSWER_NOT_WRITTEN = "answer_not_written", "its answer cannot be written"


class LeftOut(Cause):
    """What a client from outside does more often than the trace has room for."""

    CONNECTIONS = "connections", "connections that it opens and that end"
    REQUESTS = "requests", "requests that it sends"
    READS = "reads", "reads of the same records, and moves to where it reads"
    REFUSALS = "refusals", "requests that are refused"


# --------------------------------------------------------------------------------------------------------- controllers


class ElectionCause(Cause):
    """How a controller found a leader, or why none."""

    PREFERRED = "preferred", "the first replica is live and in the ISR"
    KEEPS_LEADERSHIP = "keeps_leadership", "who leads is live and in the ISR"
    FIRST_LIVE = (
        "first_live",
        "the first of the replicas that is live and in the ISR, or in the ELR while the ISR is empty",
    )
    UNCLEAN = "unclean", "the first live replica, for no member of the ISR or the ELR is live"
    UNCLEAN_LAST_KNOWN = "unclean_last_known", "who led last, for neither ISR nor ELR has a member"
    NO_LIVE_MEMBER = "no_live_member", "no leader: no member of the ISR or the ELR is live"
    UNCLEAN_DISABLED = "unclean_disabled", "likewise, and unclean.leader.election.enable is false"
    NO_LIVE_REPLICA = "no_live_replica", "no leader: no replica is live"


class OccasionKind(Cause):
    """What a controller changes leader, ISR or ELR of a partition for."""

    FENCED = "fenced", "a broker was fenced"
    UNFENCED = "unfenced", "a broker was unfenced"
    REGISTERED = "registered", "a broker registered"
    NO_CLEAN_SHUTDOWN_FILE = "no_clean_shutdown_file", "a broker registered without a clean-shutdown file"
    OTHER_CLEAN_SHUTDOWN_FILE = "other_clean_shutdown_file", "a broker registered with the file of another life"
    CONTROLLED_SHUTDOWN = "controlled_shutdown", "a broker began a controlled shutdown"
    DIRECTORY_FAILED = "directory_failed", "log directories of a broker failed"
    PREFERRED_ASKED = "preferred_asked", "an operator asked for a preferred election"
    UNCLEAN_ASKED = "unclean_asked", "an operator asked for an unclean election"
    LEADER_ASKED = "leader_asked", "an operator asked for that leader"
    PREFERRED_CHECK = "preferred_check", "the periodic check for preferred leaders"
    UNCLEAN_CHECK = "unclean_check", "the periodic check for unclean elections"
    REASSIGNMENT = "reassignment", "the replicas change"
    REASSIGNMENT_CANCELLED = "reassignment_cancelled", "a reassignment is cancelled"
    NEW_CONTROLLER = "new_controller", "ZooKeeper: the node became the controller"
    LEFT_REGISTRY = "left_registry", "ZooKeeper: brokers left the registry"
    CAME = "came", "ZooKeeper: brokers came into the registry"
    TOPIC_CONFIG = "topic_config", "ZooKeeper: the topic's configuration was changed"


class FencingCause(Cause):
    """Why a broker was fenced."""

    NO_HEARTBEAT = "no_heartbeat", "its session timed out"
    ASKED = "asked", "it asked to be fenced"
    SHUTDOWN = "shutdown", "it shuts down in order"
    UNREGISTERED = "unregistered", "an operator unregistered it"
    NOT_IN_REGISTRY = "not_in_registry", "ZooKeeper: it is not in the registry, so the controller took it offline"
    NOT_LISTED = "not_listed", "a watched cluster lists it no more"


class UnfencingCause(Cause):
    """Why a broker counts as live."""

    CAUGHT_UP = "caught_up", "it has applied the metadata log up to its own registration"
    IN_REGISTRY = "in_registry", "ZooKeeper: it is in the registry"
    FOUND_LIVE = "found_live", "ZooKeeper: a new controller found it in the registry"
    LISTED = "listed", "a watched cluster lists it"


class RegistrationCause(Cause):
    """As what a broker registered."""

    FIRST = "first", "for the first time"
    SAME_INCARNATION = "same_incarnation", "again, with the same incarnation id: it keeps its epoch"
    NEW_INCARNATION = "new_incarnation", "a process that was started anew"
    ZNODE = "znode", "ZooKeeper: it made its file in the registry"


class PlacementCause(Cause):
    """How the replicas of a new partition were chosen."""

    ASSIGNED = "assigned", "as the request says"
    PLACED = "placed", "evenly over racks and brokers"


class IsrCommitCause(Cause):
    """Why a new ISR was written."""

    PROPOSED = "proposed", "the leader proposed it (AlterPartition)"
    WRITTEN = "written", "to 2.6: the leader wrote it in ZooKeeper"
    DECIDED = "decided", "the controller's own, on the occasion that is named"
    TAKEN_OFFLINE = "taken_offline", "ZooKeeper: the controller took replicas offline"
    UNCLEAN_ELECTION = "unclean_election", "the new leader starts alone"


class ElrCause(Cause):
    """Why a replica came to the ELR or went from it."""

    BELOW_MIN_ISR = "below_min_isr", "it left an ISR that is below min.insync.replicas: it may still lead"
    NOT_ASSIGNED = "not_assigned", "it is no replica any more"
    IN_ISR = "in_isr", "it is in the ISR again"
    MAY_HAVE_LOST_RECORDS = "may_have_lost_records", "it registered and was not shut down in order"
    NO_ELR = "no_elr", "the cluster has no eligible leader replicas any more"
    HAS_TO_CATCH_UP = "has_to_catch_up", "the ISR is large enough without it"
    MIN_ISR_CHANGED = "min_isr_changed", "min.insync.replicas was changed, which voids the ELR"


class ConfigCause(Cause):
    """Who changed a setting."""

    OPERATOR = "operator", "an operator"
    DEFAULT = "default", "the topic has none of its own, and follows what the brokers have"
    ELR = "elr", "the controller, as ELR needs one min.insync.replicas"
    FEATURE = "feature", "an operator, the level of a feature"


class CandidacyCause(Cause):
    """Why a controller stands for election."""

    NO_LEADER = "no_leader", "it knows of no leader"
    ELECTION_FAILED = "election_failed", "its last election failed"
    NO_ANSWER = "no_answer", "the leader did not answer in time"
    RESIGNED = "resigned", "no other was elected since it stopped leading"
    ALONE = "alone", "there is no other controller"


class ResignationCause(Cause):
    """Why a controller is it no more."""

    SHUTDOWN = "shutdown", "it shuts down"
    NO_MAJORITY = "no_majority", "no majority has fetched from it in time"
    CANDIDATE = "candidate", "another stands for election in a newer epoch"
    NEWER_EPOCH = "newer_epoch", "a newer epoch has begun"
    OTHER_LEADER = "other_leader", "another controller was elected"
    OTHER_CONTROLLER = "other_controller", "ZooKeeper: another is the controller"
    WRITE_REFUSED = "write_refused", "ZooKeeper: a write was refused, for another was elected since"
    SESSION_EXPIRED = "session_expired", "ZooKeeper: its session is over"
    NODE_GONE = "node_gone", "ZooKeeper: /controller is gone"


class ActivationCause(Cause):
    """Why a controller is the active one."""

    COMMITTED = "committed", "the log is committed up to its first record of its epoch"
    ZNODE = "znode", "ZooKeeper: it was the first to make /controller"


class LoadingCause(Cause):
    """Why a snapshot was loaded."""

    ACTIVE = "active", "a controller became active"
    BEHIND = "behind", "what a broker missed was cut off the metadata log"


# ---------------------------------------------------------------------------------------------------- consumer groups


class JoinCause(Cause):
    """Why a group takes a member in."""

    NEW = "new", "it is new"
    STATIC_RETURNED = "static_returned", "a static member has come back, in the place of its earlier process"


class LeaveCause(Cause):
    """Why a member is no longer part of its group."""

    LEAVE_REQUEST = "leave_request", "it leaves"
    OPERATOR = "operator", "an operator removes it"
    SESSION_TIMEOUT = "session_timeout", "no heartbeat, and nothing else, came in time"
    JOIN_TIMEOUT = "join_timeout", "it did not join again in time"
    SYNC_TIMEOUT = "sync_timeout", "it did not ask for its assignment in time"
    REVOCATION_TIMEOUT = "revocation_timeout", "it did not give up its partitions in time"
    GROUP_FULL = "group_full", "the group has as many members as group.max.size allows"


class RebalanceCause(Cause):
    """Why the members of a group are to join again."""

    MEMBER_JOINED = "member_joined", "a new member has joined"
    MEMBER_LEFT = "member_left", "a member is gone"
    MEMBER_REJOINED = "member_rejoined", "a member has joined again"
    LEADER_REJOINED = "leader_rejoined", "the member that assigns has joined again"
    OTHER_PROTOCOLS = "other_protocols", "a member has joined again with other protocols"
    STATIC_RETURNED = "static_returned", "a static member has come back while its assignment was awaited"
    PROTOCOL_CHANGED = "protocol_changed", "a static member has come back, and another protocol is chosen now"
    SYNC_TIMEOUT = "sync_timeout", "members are out that did not ask for their assignment in time"
    NOT_WRITTEN = "not_written", "the assignment could not be written"
    GROUP_TOO_LARGE = "group_too_large", "the group has more members than group.max.size allows"
    UPGRADE_FAILED = "upgrade_failed", "its change to a consumer group could not be written"
    DOWNGRADED = "downgraded", "its last member of KIP-848 is gone"


class RemovalCause(Cause):
    """Why a group, or an offset that it has committed, is gone."""

    OPERATOR = "operator", "an operator has deleted it"
    TOPIC_DELETED = "topic_deleted", "the topic is deleted"
    NOT_USED = "not_used", "it was not used for offsets.retention.minutes"
    NOT_COMMITTED = "not_committed", "nothing was committed for offsets.retention.minutes"
    EMPTY = "empty", "it has neither members nor offsets any more"


# ------------------------------------------------------------------------------------------------------- transactions


class TransactionCause(Cause):
    """Why a transactional.id has come to another state."""

    INITIALIZED = "initialized", "an instance of its producer begins; all earlier ones are fenced"
    PARTITIONS_ADDED = "partitions_added", "partitions joined the transaction"
    COMMIT = "commit", "the producer commits"
    ABORT = "abort", "the producer aborts"
    NEW_INSTANCE = "new_instance", "a new instance of the producer has come, so what the old one left open is aborted"
    TIMEOUT = "timeout", "it was open for longer than transaction.timeout.ms, so it is aborted"
    MARKERS_WRITTEN = "markers_written", "every partition of the transaction has its marker"
    EXPIRED = "expired", "it was not used for transactional.id.expiration.ms"


# ------------------------------------------------------------------------------------------------------------ clients


class FailureCause(Cause):
    """Why a request, a record or a transaction of a client has failed."""

    ERROR = "error", "the answer has an error"
    REQUEST_TIMEOUT = "request_timeout", "no answer came within request.timeout.ms"
    SETUP_TIMEOUT = "setup_timeout", "the connection was not there within socket.connection.setup.timeout.ms"
    IDLE = "idle", "the connection was idle for longer than connections.max.idle.ms"
    CONNECTION_LOST = "connection_lost", "the connection has ended"
    BAD_ANSWER = "bad_answer", "what came was no answer, so the client has closed the connection"
    NO_VERSION = "no_version", "the broker offers no version of the request that the client can send"
    DELIVERY_TIMEOUT = "delivery_timeout", "delivery.timeout.ms passed before the batch was acknowledged"
    NO_METADATA = "no_metadata", "the partition was not known within max.block.ms"
    NO_MEMORY = "no_memory", "buffer.memory had no room within max.block.ms"
    TOO_LARGE = "too_large", "the record is larger than max.request.size or buffer.memory"
    NOT_SERIALIZED = "not_serialized", "the serializer has refused the record"
    CLOSED = "closed", "the producer was closed before the record was acknowledged"
    ABORTED = "aborted", "the transaction is aborted"
    SEQUENCES_LOST = "sequences_lost", "some sent records were never acknowledged, and cannot be sent again"
    NO_COORDINATOR = "no_coordinator", "FindCoordinator was answered with an error"


class ResetCause(Cause):
    """Why the position of a consumer moved other than by reading."""

    SEEK = "seek", "the application asked for this offset, or for the earliest or latest one"
    COMMITTED_OFFSET = "committed_offset", "the group has committed it"
    NO_COMMITTED_OFFSET = "no_committed_offset", "the group has committed none"
    NO_POSITION = "no_position", "the consumer has none yet"
    OUT_OF_RANGE = "out_of_range", "the leader does not have the offset"
    TRUNCATED = "truncated", "the leader's log parts from what was read"
    UNKNOWN_EPOCH = "unknown_epoch", "the leader's log was truncated: it knows no leader epoch that was read"
    FETCHES_ELSEWHERE = "fetches_elsewhere", "of a client from outside: it fetches from there"
    STATED_AGAIN = "stated_again", "of a client from outside: events about what it read over and over were left out"
    UNREADABLE_BATCH = "unreadable_batch", "of a client from outside: a batch claims more records than it can hold"
