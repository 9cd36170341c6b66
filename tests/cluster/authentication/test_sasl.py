"""SASL before a broker's requests: who logs in, who is refused and how, and what is looked at before that."""

from __future__ import annotations

import pytest
from broker_world import BrokerWorld
from hypothesis import given
from hypothesis import strategies as st
from sasl_world import ALICE, SECRET, SaslWorld
from scramp import ScramClient

from cluster.protocol.versions import (
    API_VERSIONS,
    CREATE_TOPICS,
    INIT_PRODUCER_ID,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    api_name,
)
from cluster.server.accepted_connections import ANONYMOUS
from replica.errors import ErrorCode

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
VAGUE = "Authentication failed during authentication due to invalid credentials with SASL mechanism "
RECEIVE_BYTES, REQUEST_BYTES = 524_288, 104_857_600


@pytest.fixture
def world(tmp_path):
    return SaslWorld(tmp_path)


def log_in(client, mechanism, user=ALICE, password=SECRET):
    return client.plain(user, password) if mechanism == "PLAIN" else client.scram(mechanism, user, password)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_knows_the_password_is_served_as_that_user(world, mechanism):
    client = world.client()
    assert client.principal == ANONYMOUS
    answer = log_in(client, mechanism)
    assert (answer.error_code, answer.session_lifetime.total_seconds()) == (ErrorCode.NONE, 0)
    assert client.is_served
    assert client.principal == "User:alice"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user, password", [(ALICE, "wrong"), ("bob", SECRET), (ALICE, SECRET + " ")])
def test_the_answer_to_a_wrong_login_comes_late_and_does_not_say_what_was_wrong(world, mechanism, user, password):
    client = world.client()
    began_us = world.now_us
    answer = log_in(client, mechanism, user, password)
    assert answer.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    told = "Authentication failed: Invalid username or password" if mechanism == "PLAIN" else VAGUE + mechanism
    assert answer.error_message == told
    assert client.closed and not client.is_served
    times = [now_us for now_us, peer, _, _ in world.frames if peer == client.caller.peer]
    assert times[-1] - began_us >= 100_000  # connection.failed.authentication.delay.ms
    assert user not in world.reasons[0] and password not in world.reasons[0]


@pytest.mark.parametrize("api", [METADATA, INIT_PRODUCER_ID, SASL_AUTHENTICATE, CREATE_TOPICS])
@pytest.mark.parametrize("after", ["nothing", "versions", "handshake"])
def test_a_request_before_its_time_is_not_answered_by_its_api_and_closes_the_connection(world, api, after):
    if (api, after) == (SASL_AUTHENTICATE, "handshake"):
        return  # that is its time
    client = world.client()
    if after == "versions":
        assert client.ask(API_VERSIONS, 3).error_code is ErrorCode.NONE
    if after == "handshake":
        client.handshake()
    answer = client.ask(api, {METADATA: 9, INIT_PRODUCER_ID: 4, SASL_AUTHENTICATE: 2, CREATE_TOPICS: 5}[api])
    is_answered = after == "handshake" and api == INIT_PRODUCER_ID
    assert (None if answer is None else answer.error_code) is (ErrorCode.ILLEGAL_SASL_STATE if is_answered else None)
    assert client.closed
    stage = "authentication" if after == "handshake" else "handshake"
    assert f"Unexpected Kafka request of type {api_name(api)} during SASL {stage}." in world.reasons[0]


def test_an_unknown_mechanism_is_refused_with_those_there_are(world):
    client = world.client()
    answer = client.handshake("GSSAPI")
    assert (answer.error_code, list(answer.mechanisms)) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, MECHANISMS)
    assert client.closed


def test_versions_may_be_asked_once_and_an_unknown_version_of_it_again(world):
    client = world.client()
    frame = bytearray(client.frame(API_VERSIONS, 3))
    frame[6:8] = (99).to_bytes(2, "big")
    client.caller.send(bytes(frame))
    assert client.caller.answers[-1][4:6] == int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")
    assert client.ask(API_VERSIONS, 3).error_code is ErrorCode.NONE
    assert client.ask(API_VERSIONS, 3) is None
    assert client.closed


def test_a_version_that_its_era_does_not_know_may_be_asked_anew(tmp_path):
    """librdkafka begins with the newest."""
    client = SaslWorld(tmp_path, "kafka-3.5").client()
    client.send(API_VERSIONS, 4)
    assert client.caller.answers[-1][4:6] == int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")
    assert client.ask(API_VERSIONS, 3).error_code is ErrorCode.NONE
    assert client.plain().error_code is ErrorCode.NONE


@pytest.mark.parametrize("first", [b"", b"\x60\x82\x02\x1d", b"GET / HTTP/1.1\r\n", bytes(4), b"\x16\x03\x01\x02\x00"])
def test_a_first_packet_that_is_no_request_closes_the_connection(world, first):
    client = world.client()
    assert client.bare(first) is None
    assert client.closed and world.reasons


@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
def test_tokens_are_bare_after_a_handshake_of_version_0(world, mechanism):
    client, scram = world.client(), ScramClient([mechanism], ALICE, SECRET)
    assert client.handshake(mechanism, version=0).error_code is ErrorCode.NONE
    scram.set_server_first(client.bare(scram.get_client_first().encode()).decode())
    scram.set_server_final(client.bare(scram.get_client_final().encode()).decode())
    assert client.is_served


def test_a_bare_token_of_plain_is_answered_by_an_empty_one_or_not_at_all(world):
    client = world.client()
    client.handshake(version=0)
    assert client.bare(b"\0alice\0secret") == b""
    assert client.is_served
    client = world.client()
    client.handshake(version=0)
    assert client.bare(b"\0alice\0wrong") is None
    assert client.closed


@pytest.mark.parametrize(
    "token, told",
    [
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0ali\xff\0secret", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_what_plain_says_of_other_tokens(world, token, told):
    client = world.client()
    client.handshake()
    answer = client.token(token)
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, told)


def test_the_authorization_id_may_be_the_user(world):
    assert world.client().plain(authorization_id=ALICE).error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    "first",
    [b"n,,n=alice", b"y,,n=alice,r=x", b"p=tls-unique,,n=alice,r=x", b"n,,n=al=ice,r=x", b"n,,n=alice,r=\x7f", b"\xff"],
)
def test_other_first_messages_of_scram_are_refused(world, first):
    client = world.client()
    client.handshake("SCRAM-SHA-256")
    answer = client.token(first)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        VAGUE + "SCRAM-SHA-256",
    )


@pytest.mark.parametrize(
    "final", [b"", b"c=biws,r=xnonce0", b"c=biws,r=xnonce0,p=AAAA", b"c=biws,r=y,p=AAAA", b"=" * 99]
)
def test_other_final_messages_of_scram_are_refused(world, final):
    client = world.client()
    client.handshake("SCRAM-SHA-256")
    assert client.token(b"n,a=alice,n=alice,r=x,ext=1").auth_bytes.startswith(b"r=xnonce0,s=")
    assert client.token(final).error_code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_who_has_logged_in_cannot_begin_again_without_an_end_of_the_session(world):
    client = world.client()
    client.plain()
    assert client.handshake().error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert client.token(b"").error_message == "SaslAuthenticate request received after successful authentication"
    assert client.is_served


def test_frames_are_small_until_the_client_has_logged_in(world):
    client = world.client()
    assert world.limits[client.caller._connection] == RECEIVE_BYTES
    client.plain()
    assert world.limits[client.caller._connection] == REQUEST_BYTES


def test_nodes_of_the_cluster_need_not_log_in_and_a_client_that_is_gone_leaves_nothing(world):
    assert world.call("b2").ask(METADATA, 12, topics=None).brokers
    client = world.client()
    client.plain("bob")
    left = world.broker._server.gate
    client.handshake()
    client.caller.hang_up()
    assert (left._sasl, left._began_again_us) == ({}, {})


def test_a_client_that_hangs_up_before_its_refusal_gets_none(world):
    client = world.client()
    client.send(METADATA, 9)
    client.caller.hang_up()
    world.run(200)
    assert client.caller.answers == [] and world.reasons == []


# ------------------------------------------------------------------------------------------------ sessions with an end


@pytest.fixture
def ending(tmp_path):
    return SaslWorld(tmp_path, connections_max_reauth_ms="5000")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_session_goes_on_where_the_client_logs_in_again(ending, mechanism):
    client = ending.client()
    for _ in range(3):
        assert log_in(client, mechanism).session_lifetime.total_seconds() == 5
        ending.run(4000)
        assert client.is_served
    assert client.principal == "User:alice"


def test_a_session_ends_with_the_first_request_that_comes_too_late(ending):
    client = ending.client()
    client.plain()
    ending.run(6000)
    assert not client.closed
    assert not client.is_served and client.closed
    assert ending.reasons == ["its SASL session expired, and the client did not authenticate again"]


def test_logging_in_again_is_possible_after_the_end_and_once_a_second(ending):
    client = ending.client()
    client.plain()
    ending.run(6000)
    assert client.plain().error_code is ErrorCode.NONE
    assert client.handshake().error_code is ErrorCode.ILLEGAL_SASL_STATE
    ending.run(1000)
    assert client.handshake().error_code is ErrorCode.NONE


def test_logging_in_again_keeps_mechanism_and_user(ending):
    client = ending.client()
    client.plain()
    ending.run(2000)
    assert client.handshake("SCRAM-SHA-256").error_code is ErrorCode.NONE
    assert client.token(b"n,,n=alice,r=x") is None
    assert client.closed
    assert "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-auth" in ending.reasons[0]


def test_a_wrong_password_the_second_time_ends_it(ending):
    client = ending.client()
    client.plain()
    ending.run(2000)
    answer = client.plain(password="wrong")
    assert answer.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.closed


@pytest.mark.parametrize("profile", ["kafka-3.3", "kafka-3.9"])
def test_it_is_the_same_in_earlier_eras(tmp_path, profile):
    world = SaslWorld(tmp_path, profile)
    assert world.client().plain().error_code is ErrorCode.NONE
    assert world.client().scram("SCRAM-SHA-512").error_code is ErrorCode.NONE


def test_without_users_nothing_stands_before_the_requests(tmp_path):
    world = BrokerWorld(tmp_path).start()
    world.run(100)
    caller = world.call("127.0.0.1:5000")
    assert caller.ask(SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert world.broker._server.gate is None and world.limits == {}


# ----------------------------------------------------------------------------------------------------- hostile clients


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    return SaslWorld(tmp_path_factory.mktemp("attacked"))


PIECES = [b"n,,", b"n=alice", b",", b"r=x", b"c=biws", b"p=", b"=2C", b"\0", b"alice"]
TOKENS = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from(PIECES)).map(b"".join),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("bare"), TOKENS),
        st.tuples(st.just("token"), TOKENS),
        st.tuples(st.just("handshake"), st.sampled_from([*MECHANISMS, "", "OAUTHBEARER", "PLAIN"])),
        st.tuples(st.just("handshake v0"), st.sampled_from(MECHANISMS)),
        st.tuples(st.just("versions"), st.integers(0, 4)),
    ),
    max_size=6,
)


@given(STEPS)
def test_who_does_not_know_the_password_gets_nowhere(attacked, steps):
    """Whatever is sent: an answer or an end, no one is logged in, and nothing of the connection is left."""
    client = attacked.client()
    for kind, value in steps:
        if client.closed:
            break
        match kind:
            case "bare":
                client.bare(value)
            case "token":
                client.token(value)
            case "handshake":
                client.handshake(value)
            case "handshake v0":
                client.handshake(value, version=0)
            case "versions":
                client.ask(API_VERSIONS, value)
    assert client.principal == ANONYMOUS
    assert client.closed or not client.is_served
    client.caller.hang_up()
    assert attacked.broker._server.gate._sasl == {}
