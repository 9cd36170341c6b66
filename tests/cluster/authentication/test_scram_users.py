"""SCRAM credentials in the metadata: described, set and removed by admin clients, and used at once."""

from __future__ import annotations

import pytest
from sasl_world import ALICE, SALTS, SaslWorld

from cluster.protocol.versions import ALTER_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS
from controller.image import MetadataImage
from controller.metadata import MetadataRecord, RemoveUserScramCredentialRecord, decode_record, encode_record
from controller.quorum.messages import OffsetAndEpoch
from controller.scram import MECHANISMS, credentials_of
from controller.snapshot import snapshot_of
from replica.errors import ErrorCode

SHA_256, SHA_512 = MECHANISMS.values()


@pytest.fixture
def world(tmp_path):
    return SaslWorld(tmp_path)


@pytest.fixture
def admin(world):
    client = world.client()
    client.plain()
    return client


def upsertion(user="bob", password="pass", mechanism=SHA_256, iterations=4096, salt=b"salt and pepper"):
    salted = mechanism.salted_password(password, salt, iterations)
    fields = {"name": user, "mechanism": mechanism.type, "iterations": iterations}
    return {**fields, "salt": salt, "salted_password": salted}


def alter(admin, *upsertions, deletions=()):
    answer = admin.ask(
        ALTER_USER_SCRAM_CREDENTIALS,
        0,
        deletions=[{"name": user, "mechanism": mechanism} for user, mechanism in deletions],
        upsertions=list(upsertions),
    )
    return {result.user: (result.error_code, result.error_message) for result in answer.results}


def described(admin, *users):
    named = [{"name": user} for user in users] if users else None
    answer = admin.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=named)
    return {
        result.user: result.error_code or [(one.mechanism, one.iterations) for one in result.credential_infos]
        for result in answer.results
    }


OK = (ErrorCode.NONE, None)


def test_a_cluster_begins_with_the_users_that_it_was_given(admin):
    assert described(admin) == {ALICE: [(1, 4096), (2, 4096)]}


def test_a_new_user_logs_in_at_once_and_no_more_when_it_is_removed(world, admin):
    assert alter(admin, upsertion(iterations=8192)) == {"bob": OK}
    assert described(admin, "bob") == {"bob": [(1, 8192)]}
    assert world.client().scram("SCRAM-SHA-256", "bob", "pass").error_code is ErrorCode.NONE
    assert world.client().scram("SCRAM-SHA-512", "bob", "pass").error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert alter(admin, upsertion(password="other")) == {"bob": OK}
    assert world.client().scram("SCRAM-SHA-256", "bob", "pass").error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert alter(admin, deletions=[("bob", 1)]) == {"bob": OK}
    assert world.client().scram("SCRAM-SHA-256", "bob", "other").error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert described(admin, "bob") == {"bob": ErrorCode.RESOURCE_NOT_FOUND}


def test_each_refusal_is_of_its_user_alone(admin):
    twice = [upsertion("carol"), upsertion("carol", mechanism=SHA_512)]
    answers = alter(
        admin,
        upsertion("bob"),
        upsertion("", password="x"),
        upsertion("few", iterations=4095),
        upsertion("many", iterations=16_385),
        {**upsertion("strange"), "mechanism": 7},
        *twice,
        deletions=[("dave", 1), (ALICE, 9)],
    )
    assert answers == {
        "bob": OK,
        "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        "few": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        "many": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        "strange": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        "carol": (
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
        "dave": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
        ALICE: (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
    }
    assert described(admin, "bob", "carol", "bob") == {
        "bob": ErrorCode.DUPLICATE_RESOURCE,
        "carol": ErrorCode.RESOURCE_NOT_FOUND,
    }


def test_a_restarted_controller_knows_the_users_and_does_not_begin_anew(world, admin):
    alter(admin, upsertion(), deletions=[(ALICE, 1)])
    world.stop_controller()
    world.start_controller()
    world.run(2000)
    assert described(admin) == {ALICE: [(2, 4096)], "bob": [(1, 4096)]}


def test_a_snapshot_keeps_credentials_and_records_survive_their_encoding():
    image = MetadataImage()
    records = credentials_of(ALICE, "secret", SALTS)
    removed = RemoveUserScramCredentialRecord(name=ALICE, mechanism=SHA_512.type)
    changes: list[MetadataRecord] = [*records, removed]
    for offset, record in enumerate(changes):
        assert decode_record(encode_record(record)) == record
        image.apply(record, offset)
    snapshot = snapshot_of(image, OffsetAndEpoch(epoch=1, offset=3), 0)
    assert snapshot.image().scram == image.scram == {(ALICE, SHA_256.type): records[0]}
    assert "secret" not in str(records)
