"""The causes of events, in Kafka's terms. State machines return them; the trace stores them in the column `cause`.

Each cause is a word. Other fields of the event have the numbers and names behind the decision. Queries rely on these
words, so the words do not change; spark_reports/TABLES.md lists them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Cause(StrEnum):
    """Base class of the enumerations of causes. Members are declared as `NAME = "word", "meaning"`."""

    meaning: str

    def __new__(cls, word: str, meaning: str = "") -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        return member


# ----------------------------------------------------------------------------------------------------- in-sync replicas


class IsrCause(Cause):
    """Reasons why a leader proposes another ISR."""

    CAUGHT_UP = "caught_up", "a follower reached the leader's high watermark and the start of the leader's epoch"
    LAG = "lag", "a member has not caught up within replica.lag.time.max.ms, or is no longer a replica"
    RETRY = "retry", "the previous proposal failed with an error that the leader can retry"


class LagCause(Cause):
    """Reasons why a member is out of sync."""

    NOT_CAUGHT_UP = "not_caught_up", "the member last had all records more than replica.lag.time.max.ms ago"
    NEVER_CAUGHT_UP = "never_caught_up", "the member has not had all records since this leader was elected"
    NOT_FETCHING = "not_fetching", "up to 0.8: the member has not fetched for longer than replica.lag.time.max.ms"
    BEHIND = "behind", "up to 0.8: the member is more than replica.lag.max.messages records behind the leader"
    NOT_ASSIGNED = "not_assigned", "the member is no longer a replica"


class HighWatermarkCause(Cause):
    """Reasons why a follower set its high watermark to a value."""

    LEADER = "leader", "the leader has this high watermark"
    LOG_END = "log_end", "the follower's log ends here, and the leader's high watermark is higher"
    LOG_START = "log_start", "the follower's log starts here, and the leader's high watermark is lower"
    CUT = "cut", "the follower truncated its log below its previous high watermark"
    STARTED_ANEW = "started_anew", "the follower deleted its log and continues from the start of the leader's log"


# ---------------------------------------------------------------------------------------------------------------- logs


class DeletionCause(Cause):
    """Reasons why a broker deletes its replica of a partition."""

    TOPIC_DELETED = "topic_deleted", "the topic was deleted"
    NOT_ASSIGNED = "not_assigned", "the broker is no longer a replica"


class TruncationCause(Cause):
    """Reasons why a follower cuts its log back before it fetches from a leader."""

    HIGH_WATERMARK = "high_watermark", "up to 0.10: a new follower keeps only the records below its own high watermark"
    NO_EPOCHS = "no_epochs", "the follower knows no leader epochs, so only its own high watermark can be trusted"
    EPOCH_UNKNOWN = (
        "epoch_unknown",
        "the leader does not know the follower's last epoch, so only the follower's high watermark can be trusted",
    )
    NO_ANSWER = "no_answer", "the leader cannot say where the logs diverge"
    EPOCH_END = "epoch_end", "the diverging epoch ends at this offset in the leader's log"
    OWN_EPOCH_END = (
        "own_epoch_end",
        "the diverging epoch ends at this offset in the follower's log, earlier than in the leader's",
    )
    NO_OWN_EPOCH = (
        "no_own_epoch",
        "the diverging epoch ends at this offset in the leader's log; the follower has neither it nor an earlier epoch",
    )
    EARLIER_EPOCH = (
        "earlier_epoch",
        "the follower lacks the diverging epoch, cuts its log to the end of its latest earlier epoch and asks again",
    )
    LEADER_END = "leader_end", "the leader's log ends at this offset"
    LEADER_START = (
        "leader_start",
        "the leader's log starts after the end of the follower's log, so the follower deletes its log",
    )


class DataLossCause(Cause):
    """Ways in which a disk loses bytes of a log."""

    NOT_FLUSHED = "not_flushed", "the bytes were never flushed, and the machine lost power"
    TORN = "torn", "the bytes were torn off the end of the log"
    DISK_REPLACED = "disk_replaced", "the disk was replaced by an empty one"
    DISK_FAILED = "disk_failed", "the disk can no longer be read"


class FetchFailureCause(Cause):
    """Reasons why a follower or a consumer cannot fetch further in a partition."""

    REFUSED = "refused", "the leader refuses the fetch"
    FENCED = "fenced", "the leader is in a later epoch than the follower knows"
    NOT_APPENDED = "not_appended", "the follower cannot append the records that the leader sent"
    OFFSET_GAP = "offset_gap", "the follower's log ends before the offset from which it fetches"
    BATCH_TOO_LARGE = "batch_too_large", "up to 0.10.0: the next batch is larger than replica.fetch.max.bytes"


class RetentionCause(Cause):
    """The settings that make records expire."""

    SIZE = "size", "retention.bytes: the log has at least this size without the records"
    TIME = "time", "retention.ms: all records of the segments are older than this"


# -------------------------------------------------------------------------------------------------- network and servers


class ConnectionEnd(Cause):
    """Ways in which a connection ends, as seen from one side."""

    CLOSED = "closed", "closed by the other side"
    RESET = "reset", "reset by the other side"
    TORN = "torn", "ended because a segment file was shorter than its frame announced"
    TLS_FAILED = "tls_failed", "ended because TLS failed"
    GIVEN_UP = "given_up", "closed by this side"


class DropCause(Cause):
    """Reasons why a message that was delayed by a hold or a cut will never arrive."""

    CONNECTION_ENDED = "connection_ended", "its connection ended"
    CONNECTION_CLOSED = "connection_closed", "its sender closed the connection while the link was cut"
    CONNECTION_RESET = "connection_reset", "its sender reset the connection while the link was cut"
    NOT_SENT = "not_sent", "its sender stopped before it sent the body"
    POWER_LOST = "power_lost", "its sender lost power"
    PROCESS_GONE = "process_gone", "it was in the memory of its sender's process, and the process ended"


class CloseCause(Cause):
    """Reasons why a node closed a connection that another node or a client had opened."""

    VIOLATION = "violation", "a frame or a request breaks the protocol"
    REQUEST_TOO_LARGE = "request_too_large", "a request is larger than socket.request.max.bytes"
    REQUEST_MEMORY = "request_memory", "incoming requests take too much memory, and this connection has waited longest"
    TOO_MANY = "too_many", "its address already has max.connections.per.ip connections"
    IDLE = "idle", "nothing was sent on it for connections.max.idle.ms"
    NODES_ONLY = "nodes_only", "only nodes of the cluster may connect here"
    NO_SECRET = "no_secret", "the peer has the address of a node but does not know the secret of the run"
    AUTHENTICATION_FAILED = "authentication_failed", "its authentication failed"
    SESSION_OVER = "session_over", "its SASL session expired, and the client did not authenticate again"
    BUG = "bug", "a request hit a bug in Highwater"
    ANSWER_NOT_WRITTEN = "answer_not_written", "a response could not be encoded because of a bug in Highwater"
    FAULT = "fault", "a step of the timeline closed it"


class InjectionCause(Cause):
    """What a broker did with a request before it obeyed a fault of requests."""

    NOT_APPLIED = "not_applied", "the broker did not carry out the request"
    APPLIED = "applied", "the broker carried out the request"


class LeftOut(Cause):
    """Kinds of frequent events of an external client that are counted and left out of the trace."""

    CONNECTIONS = "connections", "ends of its connections"
    REQUESTS = "requests", "its requests"
    READS = "reads", "repeated reads of the same records, and changes of its position"
    REFUSALS = "refusals", "refusals of its requests"


# --------------------------------------------------------------------------------------------------------- controllers


class ElectionCause(Cause):
    """Rules by which a controller chose a leader, or reasons why it found none."""

    PREFERRED = "preferred", "the first replica is live and in the ISR"
    KEEPS_LEADERSHIP = "keeps_leadership", "the current leader is live and in the ISR"
    FIRST_LIVE = (
        "first_live",
        "the first replica that is live and in the ISR, or in the ELR if the ISR is empty",
    )
    UNCLEAN = "unclean", "the first live replica, because no member of the ISR or the ELR is live"
    UNCLEAN_LAST_KNOWN = "unclean_last_known", "the last known leader, because ISR and ELR are empty"
    NO_LIVE_MEMBER = "no_live_member", "no leader: no member of the ISR or the ELR is live"
    UNCLEAN_DISABLED = (
        "unclean_disabled",
        "no leader: no member of the ISR or the ELR is live, and unclean.leader.election.enable is false",
    )
    NO_LIVE_REPLICA = "no_live_replica", "no leader: no replica is live"


class OccasionKind(Cause):
    """Events that made a controller change the leader, ISR or ELR of a partition."""

    FENCED = "fenced", "a broker was fenced"
    UNFENCED = "unfenced", "a broker was unfenced"
    REGISTERED = "registered", "a broker registered"
    NO_CLEAN_SHUTDOWN_FILE = "no_clean_shutdown_file", "a broker registered without a clean-shutdown file"
    OTHER_CLEAN_SHUTDOWN_FILE = (
        "other_clean_shutdown_file",
        "a broker registered with the clean-shutdown file of another incarnation",
    )
    CONTROLLED_SHUTDOWN = "controlled_shutdown", "a broker began a controlled shutdown"
    DIRECTORY_FAILED = "directory_failed", "log directories of a broker failed"
    DIRECTORY_REPORTED = "directory_reported", "a broker reported the log directory of its replica"
    PREFERRED_ASKED = "preferred_asked", "an operator asked for a preferred election"
    UNCLEAN_ASKED = "unclean_asked", "an operator asked for an unclean election"
    LEADER_ASKED = "leader_asked", "an operator asked for this leader"
    PREFERRED_CHECK = "preferred_check", "the periodic check for preferred leaders"
    UNCLEAN_CHECK = "unclean_check", "the periodic check for unclean elections"
    REASSIGNMENT = "reassignment", "a reassignment changed the replicas"
    REASSIGNMENT_CANCELLED = "reassignment_cancelled", "a reassignment was cancelled"
    NEW_CONTROLLER = "new_controller", "ZooKeeper: a broker became the controller"
    LEFT_REGISTRY = "left_registry", "ZooKeeper: brokers left the registry"
    CAME = "came", "ZooKeeper: brokers joined the registry"
    TOPIC_CONFIG = "topic_config", "ZooKeeper: the topic's configuration was changed"


class FencingCause(Cause):
    """Reasons why a broker was fenced."""

    NO_HEARTBEAT = "no_heartbeat", "its session timed out"
    ASKED = "asked", "it asked to be fenced"
    SHUTDOWN = "shutdown", "it is shutting down cleanly"
    UNREGISTERED = "unregistered", "an operator unregistered it"
    NOT_IN_REGISTRY = "not_in_registry", "ZooKeeper: it is not in the registry, so the controller took it offline"
    NOT_LISTED = "not_listed", "a watched cluster no longer lists it"


class UnfencingCause(Cause):
    """Reasons why a broker was unfenced."""

    CAUGHT_UP = "caught_up", "it has applied the metadata log up to its own registration"
    IN_REGISTRY = "in_registry", "ZooKeeper: it is in the registry"
    FOUND_LIVE = "found_live", "ZooKeeper: a new controller found it in the registry"
    LISTED = "listed", "a watched cluster lists it"


class RegistrationCause(Cause):
    """Kinds of registrations of a broker: the first one, a repeated one, or one after a restart."""

    FIRST = "first", "the first registration of the broker"
    SAME_INCARNATION = (
        "same_incarnation",
        "a repeated registration with the same incarnation id; the broker keeps its epoch",
    )
    NEW_INCARNATION = "new_incarnation", "the registration of a restarted broker"
    ZNODE = "znode", "ZooKeeper: the broker created its znode in the registry"


class PlacementCause(Cause):
    """Ways in which the replicas of a new partition are chosen."""

    ASSIGNED = "assigned", "as the request says"
    PLACED = "placed", "evenly over racks and brokers"


class IsrCommitCause(Cause):
    """Origins of a new ISR."""

    PROPOSED = "proposed", "the leader proposed it (AlterPartition)"
    WRITTEN = "written", "up to 2.6: the leader wrote it to ZooKeeper"
    DECIDED = "decided", "the controller decided it; the column `occasion` has the event that led to it"
    TAKEN_OFFLINE = "taken_offline", "ZooKeeper: the controller took replicas offline"
    UNCLEAN_ELECTION = "unclean_election", "an unclean election, after which the new leader is the only member"


class ElrCause(Cause):
    """Reasons why a replica entered or left the ELR."""

    BELOW_MIN_ISR = "below_min_isr", "it left the ISR, which is below min.insync.replicas, and may still be elected"
    NOT_ASSIGNED = "not_assigned", "it is no longer a replica"
    IN_ISR = "in_isr", "it is in the ISR again"
    MAY_HAVE_LOST_RECORDS = "may_have_lost_records", "it registered after an unclean shutdown"
    NO_ELR = "no_elr", "the cluster no longer has eligible leader replicas"
    HAS_TO_CATCH_UP = "has_to_catch_up", "the ISR is large enough without it"
    MIN_ISR_CHANGED = "min_isr_changed", "min.insync.replicas was changed, which voids the ELR"
    DIRECTORY_REPORTED = (
        "directory_reported",
        "a broker reported the log directory of its replica, which voids the ELR before 4.3",
    )


class ConfigCause(Cause):
    """Origins of a changed setting."""

    OPERATOR = "operator", "an operator"
    DEFAULT = "default", "the topic has no value of its own, so the brokers' value applies"
    ELR = "elr", "the controller, since ELR needs the same min.insync.replicas on all brokers"
    FEATURE = "feature", "an operator, who set the level of a feature"


class CandidacyCause(Cause):
    """Reasons why a controller stands for election."""

    NO_LEADER = "no_leader", "it knows of no leader"
    ELECTION_FAILED = "election_failed", "its last election failed"
    NO_ANSWER = "no_answer", "the leader did not answer in time"
    RESIGNED = "resigned", "no other controller was elected since it stopped leading"
    ALONE = "alone", "there is no other controller"


class ResignationCause(Cause):
    """Reasons why a controller resigned."""

    SHUTDOWN = "shutdown", "it is shutting down"
    NO_MAJORITY = "no_majority", "no majority has fetched from it in time"
    CANDIDATE = "candidate", "another controller stands for election in a newer epoch"
    NEWER_EPOCH = "newer_epoch", "a newer epoch has begun"
    OTHER_LEADER = "other_leader", "another controller was elected"
    REMOVED = "removed", "it is no longer a voter"
    OTHER_CONTROLLER = "other_controller", "ZooKeeper: another broker is the controller"
    WRITE_REFUSED = "write_refused", "ZooKeeper: a write was refused, because another controller was elected"
    SESSION_EXPIRED = "session_expired", "ZooKeeper: its session expired"
    NODE_GONE = "node_gone", "ZooKeeper: /controller is gone"


class VoterChangeCause(Cause):
    """Reasons why a leader gave up a change of the voters."""

    UNREACHABLE = "unreachable", "the new voter did not answer"
    LAGGING = "lagging", "the new voter has not caught up"
    NOT_COMMITTED = "not_committed", "no majority replicated the change in time"
    DEPOSED = "deposed", "it is no longer the leader"


class ActivationCause(Cause):
    """Ways in which a controller becomes active."""

    COMMITTED = "committed", "the first record of its epoch is committed, and so are all earlier records"
    ZNODE = "znode", "ZooKeeper: it was the first to create /controller"


class LoadingCause(Cause):
    """Reasons why a snapshot was loaded."""

    ACTIVE = "active", "a controller became active"
    BEHIND = "behind", "the metadata log no longer has the records that a broker needs"


# ---------------------------------------------------------------------------------------------------- consumer groups


class JoinCause(Cause):
    """Reasons why a group accepted a member."""

    NEW = "new", "it is new"
    STATIC_RETURNED = "static_returned", "a static member came back and replaced its earlier process"


class LeaveCause(Cause):
    """Reasons why a member is no longer part of its group."""

    LEAVE_REQUEST = "leave_request", "it asked to leave"
    OPERATOR = "operator", "an operator removed it"
    SESSION_TIMEOUT = "session_timeout", "no heartbeat or other request came in time"
    JOIN_TIMEOUT = "join_timeout", "it did not join again in time"
    SYNC_TIMEOUT = "sync_timeout", "it did not ask for its assignment in time"
    REVOCATION_TIMEOUT = "revocation_timeout", "it did not give up its partitions in time"
    GROUP_FULL = "group_full", "the group has as many members as group.max.size allows"


class ShareCause(Cause):
    """Reasons why the delivery of a record to a member of a share group has ended."""

    ACCEPTED = "accepted", "accepted by the member"
    RELEASED = "released", "released by the member"
    REJECTED = "rejected", "rejected by the member"
    GAP = "gap", "there is no record for the member to read"
    LOCK_EXPIRED = "lock_expired", "not acknowledged in time by the member"
    SESSION_ENDED = "session_ended", "the session of the member ended"


class DeadLetterCause(Cause):
    """Outcomes of an attempt to write records that a share group has given up to its dead letter queue (KIP-1191)."""

    WRITTEN = "written", "they are in the queue"
    NO_QUEUE = "no_queue", "errors.deadletterqueue.topic.name of the group is empty"
    NO_TOPIC = "no_topic", "there is no such topic, and errors.deadletterqueue.auto.create.topics.enable is false"
    NOT_ENABLED = "not_enabled", "errors.deadletterqueue.group.enable of the topic is false"
    OTHER_PREFIX = "other_prefix", "its name does not begin with errors.deadletterqueue.topic.name.prefix"
    REFUSED = "refused", "the request was refused"
    EXHAUSTED = "exhausted", "all five attempts failed"


class RebalanceCause(Cause):
    """Reasons why the members of a group have to join again."""

    MEMBER_JOINED = "member_joined", "a new member joined"
    MEMBER_LEFT = "member_left", "a member left or was removed"
    MEMBER_REJOINED = "member_rejoined", "a member joined again"
    LEADER_REJOINED = "leader_rejoined", "the group's leader joined again"
    OTHER_PROTOCOLS = "other_protocols", "a member joined again with other protocols"
    STATIC_RETURNED = "static_returned", "a static member came back while the members waited for the assignment"
    PROTOCOL_CHANGED = "protocol_changed", "a static member came back, and another protocol is now chosen"
    SYNC_TIMEOUT = "sync_timeout", "members that did not ask for their assignment in time were removed"
    NOT_WRITTEN = "not_written", "the assignment could not be written"
    GROUP_TOO_LARGE = "group_too_large", "the group has more members than group.max.size allows"
    UPGRADE_FAILED = "upgrade_failed", "its change to a consumer group could not be written to the log"
    DOWNGRADED = "downgraded", "its last member with the protocol of KIP-848 left"


class RemovalCause(Cause):
    """Reasons why a group or one of its committed offsets was removed."""

    OPERATOR = "operator", "an operator deleted it"
    TOPIC_DELETED = "topic_deleted", "the topic was deleted"
    NOT_USED = "not_used", "it was not used for offsets.retention.minutes"
    NOT_COMMITTED = "not_committed", "nothing was committed for offsets.retention.minutes"
    EMPTY = "empty", "it has no members and no offsets"


# ------------------------------------------------------------------------------------------------------- transactions


class TransactionCause(Cause):
    """Reasons why the state of a transactional.id changed."""

    INITIALIZED = "initialized", "a new instance of its producer started, and all earlier instances are fenced"
    PARTITIONS_ADDED = "partitions_added", "partitions joined the transaction"
    COMMIT = "commit", "the producer asked to commit"
    ABORT = "abort", "the producer asked to abort"
    NEW_INSTANCE = (
        "new_instance",
        "a new instance of its producer started, so the transaction of the old instance is aborted",
    )
    TIMEOUT = "timeout", "it was open for longer than transaction.timeout.ms, so it is aborted"
    MARKERS_WRITTEN = "markers_written", "every partition of the transaction has its marker"
    EXPIRED = "expired", "it was not used for transactional.id.expiration.ms"


# ------------------------------------------------------------------------------------------------------------ clients


class FailureCause(Cause):
    """Reasons why a request, a record or a transaction of a client failed."""

    ERROR = "error", "the broker answered with an error"
    REQUEST_TIMEOUT = "request_timeout", "no answer came within request.timeout.ms"
    SETUP_TIMEOUT = "setup_timeout", "no connection was made within socket.connection.setup.timeout.ms"
    IDLE = "idle", "the connection was idle for longer than connections.max.idle.ms"
    CONNECTION_LOST = "connection_lost", "the connection ended"
    BAD_ANSWER = "bad_answer", "the client could not read the answer and closed the connection"
    NO_VERSION = "no_version", "the broker offers no version of the request that the client can send"
    DELIVERY_TIMEOUT = "delivery_timeout", "delivery.timeout.ms passed before the batch was acknowledged"
    NO_METADATA = "no_metadata", "the partition was not known within max.block.ms"
    NO_MEMORY = "no_memory", "buffer.memory had no room within max.block.ms"
    TOO_LARGE = "too_large", "the record is larger than max.request.size or buffer.memory"
    NOT_SERIALIZED = "not_serialized", "the serializer refused the record"
    CLOSED = "closed", "the producer was closed before the record was acknowledged"
    ABORTED = "aborted", "the transaction was aborted"
    SEQUENCES_LOST = "sequences_lost", "some sent records were never acknowledged, and cannot be sent again"
    NO_COORDINATOR = "no_coordinator", "FindCoordinator was answered with an error"


class ResetCause(Cause):
    """Reasons why the position of a consumer changed other than by reading."""

    SEEK = "seek", "the application asked for this offset, or for the earliest or latest one"
    COMMITTED_OFFSET = "committed_offset", "this is the committed offset of the group"
    NO_COMMITTED_OFFSET = "no_committed_offset", "the group has no committed offset"
    NO_POSITION = "no_position", "the consumer has no position yet"
    OUT_OF_RANGE = "out_of_range", "the leader does not have the offset"
    TRUNCATED = "truncated", "the leader's log differs from the records that were read"
    UNKNOWN_EPOCH = "unknown_epoch", "the leader's log was truncated and has none of the leader epochs that were read"
    FETCHES_ELSEWHERE = "fetches_elsewhere", "external client: it did not continue from the next offset"
    STATED_AGAIN = "stated_again", "external client: events about repeated reads were left out"
    UNREADABLE_BATCH = "unreadable_batch", "external client: a batch claims more records than it can hold"


class ReadReplicaCause(Cause):
    """Reasons why a consumer reads a partition from another replica."""

    PREFERRED = "preferred", "the leader chose the replica, which is in the consumer's rack"
    EXPIRED = "expired", "metadata.max.age.ms has passed, so the consumer asks the leader again"
    UNREACHABLE = "unreachable", "the replica did not answer, or no connection to it could be made"
    OUT_OF_RANGE = "out_of_range", "the replica does not have the offset"
    REFUSED = "refused", "the replica refused the fetch"
    OFFLINE = "offline", "the metadata lacks the replica, or says that it is offline"
    NEW_LEADER = "new_leader", "the leader or its epoch has changed"


class WaitCause(Cause):
    """Reasons why a client wrote or read nothing for a while.

    They are in the column `cause` of `waits` in summary.json, not in the trace.
    """

    NO_LEADER = "no_leader", "no replica could be elected"
    LEADER_DOWN = "leader_down", "the leader was down, and no other leader was elected yet"
    LEADER_STARTING = "leader_starting", "the elected leader did not serve requests yet"
    NO_CONTROLLER = "no_controller", "no controller was active"
    ISR_PENDING = "isr_pending", "the leader had proposed a smaller ISR, and the controller had not accepted it yet"
    MIN_ISR = "min_isr", "the ISR was below min.insync.replicas"
    FOLLOWER_BEHIND = "follower_behind", "a member of the ISR did not fetch the records"
    SLOW_ANSWER = "slow_answer", "the leader was slow to answer"
    LEADER_SILENT = "leader_silent", "the leader was running, but its answer did not arrive"
    REQUEST_TIMEOUT = "request_timeout", "the client waited for an answer until request.timeout.ms had passed"
    NO_ANSWER = "no_answer", "the client waited for a former leader, for less than request.timeout.ms"
    SETUP_TIMEOUT = "setup_timeout", "the client waited for a connection, up to socket.connection.setup.timeout.ms"
    RETRY_BACKOFF = "retry_backoff", "the client waited retry.backoff.ms before its next attempt"
    STALE_METADATA = "stale_metadata", "the client still sent its requests to a former leader"
    THROTTLED = "throttled", "a quota throttled the client"
    TRANSACTION = "transaction", "the client waited for the coordinator of its transaction"
    CLIENT_DOWN = "client_down", "the client itself was down"
    LINGER = "linger", "the batch waited for more records (linger.ms)"
    LAST_STABLE_OFFSET = "last_stable_offset", "an open transaction held back the last stable offset"
    FETCH_REFUSED = "fetch_refused", "the leader answered the fetches with an error"
    REBALANCE = "rebalance", "the group was rebalancing"
    MEMBER_DOWN = "member_down", "the member with the partition was down but still in the group"
    UNASSIGNED = "unassigned", "no member of the group had the partition"
    UNKNOWN = "unknown", "the events do not show the cause"
