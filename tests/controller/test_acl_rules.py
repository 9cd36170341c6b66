"""Rules of who may do what: the index against a slow reading of all rules, and Kafka's filters."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from controller.access import EVERYBODY, Acl, AclFilter, Acls, Operation, PatternType, Permission, ResourceType
from controller.acl_control import AclControl
from controller.changes import Journal
from controller.image import MetadataImage
from controller.inputs import CreateAcl, DeleteAcls, DeleteAclsReply, PlainReply
from controller.metadata import AccessControlEntryRecord, MetadataRecord, decode_record, encode_record
from controller.quorum.messages import OffsetAndEpoch
from controller.snapshot import snapshot_of
from replica.errors import ErrorCode
from replica.ids import Names

ALICE, BOB = "User:alice", "User:bob"
HERE = "127.0.0.1"
TOPIC, LITERAL, PREFIXED = ResourceType.TOPIC, PatternType.LITERAL, PatternType.PREFIXED
NAMES = ["a", "ab", "abc", "b", "*"]


def acl(
    operation=Operation.READ, name="ab", pattern=LITERAL, who=ALICE, permission=Permission.ALLOW, host="*", kind=TOPIC
) -> Acl:
    return Acl(kind, name, pattern, who, host, operation, permission)


def acls_of(*rules: Acl) -> Acls:
    acls = Acls()
    for number, rule in enumerate(rules):
        acls.add(AccessControlEntryRecord(id=UUID(int=number + 1), **rule._asdict()))
    return acls


def allowed(*rules: Acl, operation=Operation.READ, name="ab", who=ALICE, host=HERE, otherwise=False) -> bool:
    return acls_of(*rules).allow(who, host, operation, TOPIC, name, otherwise=otherwise)


def test_without_a_rule_nothing_is_allowed_unless_the_cluster_says_so():
    assert not allowed()
    assert allowed(otherwise=True)
    assert not allowed(acl(who=BOB), otherwise=True), "a rule is about this topic, and none about alice"


def test_who_is_forbidden_is_not_allowed():
    assert allowed(acl())
    assert not allowed(acl(), acl(permission=Permission.DENY))
    assert not allowed(acl(Operation.ALL), acl(permission=Permission.DENY, name="a", pattern=PREFIXED, who=EVERYBODY))
    assert allowed(acl(), acl(permission=Permission.DENY, host="127.0.0.2"))


def test_some_operations_allow_others_and_forbid_only_themselves():
    for operation in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER):
        assert allowed(acl(operation), operation=Operation.DESCRIBE)
        denied = acl(operation, permission=Permission.DENY)
        assert allowed(acl(Operation.DESCRIBE), denied, operation=Operation.DESCRIBE)
    assert allowed(acl(Operation.ALTER_CONFIGS), operation=Operation.DESCRIBE_CONFIGS)
    assert not allowed(acl(Operation.CREATE), operation=Operation.DESCRIBE)
    assert not allowed(acl(Operation.DESCRIBE), operation=Operation.READ)


def test_a_star_is_any_name_and_no_prefix():
    assert allowed(acl(name="*"))
    assert not allowed(acl(name="*", pattern=PREFIXED))
    assert allowed(acl(name="*", pattern=PREFIXED), name="*x")


rules = st.builds(
    acl,
    operation=st.sampled_from([Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE]),
    name=st.sampled_from(NAMES),
    pattern=st.sampled_from([LITERAL, PREFIXED]),
    who=st.sampled_from([ALICE, BOB, EVERYBODY]),
    permission=st.sampled_from([Permission.ALLOW, Permission.DENY]),
    host=st.sampled_from(["*", HERE, "10.0.0.1"]),
)


def slowly(given: list[Acl], operation: Operation, name: str) -> bool:
    """As Kafka says it: every rule is looked at."""
    implying = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE}
    fitting = [
        one
        for one in given
        if one.principal in (ALICE, EVERYBODY)
        and one.host in ("*", HERE)
        and (name.startswith(one.resource_name) if one.pattern_type == PREFIXED else one.resource_name in ("*", name))
    ]
    denies = [one for one in fitting if one.permission_type == Permission.DENY]
    allows = [one for one in fitting if one.permission_type == Permission.ALLOW]
    wanted = {operation} | (implying if operation is Operation.DESCRIBE else set())
    return not any(one.operation in (operation, Operation.ALL) for one in denies) and any(
        one.operation in {*wanted, Operation.ALL} for one in allows
    )


@given(
    st.lists(rules, max_size=12, unique=True),
    st.sampled_from([Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE]),
    st.sampled_from(["a", "ab", "abc", "abcd", "b", "c"]),
)
def test_the_index_finds_what_a_look_at_every_rule_finds(given, operation, name):
    assert allowed(*given, operation=operation, name=name) is slowly(given, operation, name)


@given(st.lists(rules, max_size=8, unique=True))
def test_who_may_do_it_with_one_name_may_do_it_with_some_name(given):
    """A name that no literal rule is about tells prefixes apart from literal names; `*` is a prefix, too."""
    names = [*NAMES[:-1], *(f"{name}~" for name in NAMES), "~"]
    some = acls_of(*given).allow_some(ALICE, HERE, Operation.WRITE, TOPIC)
    assert some is any(allowed(*given, operation=Operation.WRITE, name=name) for name in names)


def test_filters_match_as_those_of_kafka():
    found = [acl(name="ab"), acl(name="a", pattern=PREFIXED), acl(name="*"), acl(name="b")]

    def matching(name, pattern):
        wanted = AclFilter(TOPIC, name, pattern, None, None, Operation.ANY, Permission.ANY)
        return [(one.resource_name, one.pattern_type) for one in found if wanted.matches(one)]

    assert matching("ab", LITERAL) == [("ab", LITERAL)]
    assert matching("ab", PatternType.ANY) == [("ab", LITERAL)]
    assert matching("ab", PatternType.MATCH) == [("ab", LITERAL), ("a", PREFIXED), ("*", LITERAL)]
    assert matching(None, PREFIXED) == [("a", PREFIXED)]
    assert len(matching(None, PatternType.ANY)) == 4


# ---------------------------------------------------------------------------------------------------- the controller


def control() -> tuple[AclControl, Journal]:
    journal = Journal(Names({}), 1)
    return AclControl(journal), journal


def create(given: AclControl, journal: Journal, rule: Acl) -> PlainReply:
    given.create(CreateAcl(now_us=0, acl=rule))
    reply = journal.take()[-1]
    assert isinstance(reply, PlainReply)
    return reply


def test_a_rule_that_is_there_is_not_added_again():
    acls, journal = control()
    for _ in range(2):
        assert create(acls, journal, acl()).error is ErrorCode.NONE
    assert journal.image.offset == 0


def test_what_is_no_rule_is_refused_in_kafkas_words():
    acls, journal = control()
    for rule, told in [
        (acl(kind=ResourceType.CLUSTER, name="x"), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (acl(name=""), "Invalid empty resource name"),
        (acl(kind=ResourceType.ANY), "Invalid resourceType ANY"),
        (acl(kind=99), "Invalid resourceType UNKNOWN"),
        (acl(pattern=PatternType.MATCH), "Invalid patternType MATCH"),
        (acl(Operation.ANY), "Invalid operation ANY"),
        (acl(permission=Permission.ANY), "Invalid permissionType ANY"),
        (acl(who="alice"), "Could not parse principal from `alice`"),
    ]:
        reply = create(acls, journal, rule)
        assert reply.error is ErrorCode.INVALID_REQUEST
        assert reply.message.startswith(told)
    assert journal.image.offset == -1


def test_each_filter_sees_the_rules_of_before_and_a_rule_goes_once():
    acls, journal = control()
    for rule in (acl(), acl(who=BOB)):
        create(acls, journal, rule)
    every = AclFilter(TOPIC, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)
    acls.delete(DeleteAcls(now_us=0, filters=(every, every._replace(principal=BOB))))
    *records, reply = journal.take()
    assert isinstance(reply, DeleteAclsReply)
    assert [len(found) for found in reply.deleted] == [2, 1]
    assert (len(records), len(journal.image.acls)) == (2, 0)


def test_a_snapshot_and_the_log_make_the_same_rules():
    acls, journal = control()
    for rule in (acl(), acl(who=BOB), acl(name="x")):
        create(acls, journal, rule)
    acls.delete(DeleteAcls(now_us=0, filters=(AclFilter(TOPIC, "x", LITERAL, None, None, Operation.ANY, 1),)))
    image = journal.image
    made: list[MetadataRecord] = list(image.acls.records())
    assert [decode_record(encode_record(one)) for one in made] == made
    copy: MetadataImage = snapshot_of(image, OffsetAndEpoch(epoch=1, offset=image.offset + 1), 0).image()
    assert list(copy.acls) == list(image.acls) == [acl(), acl(who=BOB)]
    assert copy.acls.allow(BOB, HERE, Operation.READ, TOPIC, "ab", otherwise=False)
