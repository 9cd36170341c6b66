"""Access control lists (ACLs) of topics, groups, transactional ids and the cluster, and decisions based on them.

A rule allows or denies one operation on the resources that its pattern matches. A denying rule overrides allowing
rules. Without a rule an operation is denied, unless allow.everyone.if.no.acl.found is set.

Source: StandardAuthorizerData, ResourcePatternFilter, AccessControlEntryFilter (KIP-11, KIP-290, KIP-801)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from controller.metadata import AccessControlEntryRecord

WILDCARD: Final = "*"
"""The name in a LITERAL pattern that matches every name, and the host in a rule that matches every host."""
EVERYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"


class ResourceType(IntEnum):
    """The type of a resource. All enumerations of this module have Kafka's codes."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name in a rule or a filter is compared with the names of resources.

    ANY and MATCH occur only in filters; MATCH finds every pattern that covers a name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """An operation that a rule allows or denies, as in Kafka's AclOperation."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """The effect of a rule: it allows or denies an operation. As in Kafka's AclPermissionType."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


SUPPORTED: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that each type of resource supports. Source: AclEntry.supportedOperations"""

IMPLIED_BY: Final[Mapping[Operation, tuple[Operation, ...]]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""For each operation, the operations that imply it when they are allowed; their denial does not deny it."""


class Acl(NamedTuple):
    """One ACL rule, with Kafka's codes. `principal` has the form `User:name`; `host` is an address without a port."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def is_of(self, principal: str, host: str) -> bool:
        return self.principal in (principal, EVERYBODY) and self.host in (host, WILDCARD)

    def is_about(self, operation: Operation) -> bool:
        if self.operation in (operation, Operation.ALL):
            return True
        return self.permission_type == Permission.ALLOW and self.operation in IMPLIED_BY.get(operation, ())


class AclFilter(NamedTuple):
    """A filter of rules; None and ANY match every value."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission_type in (Permission.ANY, acl.permission_type)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        kind, name = self.pattern_type, self.resource_name
        if kind not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None:
            return True
        if kind != PatternType.MATCH:
            return name == acl.resource_name
        if acl.pattern_type == PatternType.LITERAL:
            return acl.resource_name in (name, WILDCARD)
        return name.startswith(acl.resource_name)


class Acls:
    """All rules of a cluster, each with its id."""

    __slots__ = ("_by_id", "_by_pattern", "_ids")

    def __init__(self) -> None:
        self._by_id: dict[UUID, Acl] = {}
        self._ids: dict[Acl, UUID] = {}
        self._by_pattern: dict[tuple[int, int, str], dict[Acl, None]] = {}

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._ids)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def id_of(self, acl: Acl) -> UUID:
        return self._ids[acl]

    def add(self, record: AccessControlEntryRecord) -> None:
        acl = Acl(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        self._by_id[record.id] = acl
        self._ids[acl] = record.id
        self._by_pattern.setdefault((acl.resource_type, acl.pattern_type, acl.resource_name), {})[acl] = None

    def remove(self, acl_id: UUID) -> None:
        acl = self._by_id.pop(acl_id)
        del self._ids[acl]
        pattern = acl.resource_type, acl.pattern_type, acl.resource_name
        del self._by_pattern[pattern][acl]
        if not self._by_pattern[pattern]:
            del self._by_pattern[pattern]

    def records(self) -> Iterator[AccessControlEntryRecord]:
        for acl, acl_id in self._ids.items():
            yield record_of(acl_id, acl)

    def about(self, kind: ResourceType, name: str) -> Iterator[Acl]:
        """Yield the rules whose pattern matches a resource."""
        if not self._ids:
            return
        patterns = [(kind, PatternType.LITERAL, WILDCARD)] if name != WILDCARD else []
        patterns.append((kind, PatternType.LITERAL, name))
        patterns += [(kind, PatternType.PREFIXED, name[:length]) for length in range(1, len(name) + 1)]
        for pattern in patterns:
            yield from self._by_pattern.get(pattern, ())

    def allow(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str, *, otherwise: bool
    ) -> bool:
        """Return True if the rules allow an operation on one resource.

        Args:
            otherwise: the result if no rule covers the resource (allow.everyone.if.no.acl.found).
        """
        is_allowed, is_ruled = False, False
        for acl in self.about(kind, name):
            is_ruled = True
            if acl.is_of(principal, host) and acl.is_about(operation):
                if acl.permission_type == Permission.DENY:
                    return False
                is_allowed = True
        return is_allowed or (otherwise and not is_ruled)

    def allow_some(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Return True if the rules allow an operation on any resource of this type. Source: authorizeByResourceType"""
        allowed: list[Acl] = []
        denied: list[Acl] = []
        for acl in self:
            is_meant = acl.resource_type == kind and acl.operation in (operation, Operation.ALL)
            if is_meant and acl.is_of(principal, host):
                (denied if acl.permission_type == Permission.DENY else allowed).append(acl)
        literal = {acl.resource_name for acl in denied if acl.pattern_type == PatternType.LITERAL}
        prefixed = tuple(acl.resource_name for acl in denied if acl.pattern_type == PatternType.PREFIXED)
        if WILDCARD in literal:
            return False
        return any(
            (acl.pattern_type == PatternType.LITERAL and acl.resource_name == WILDCARD)
            or not (
                acl.resource_name.startswith(prefixed)
                or (acl.pattern_type == PatternType.LITERAL and acl.resource_name in literal)
            )
            for acl in allowed
        )


def record_of(acl_id: UUID, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(id=acl_id, **acl._asdict())
