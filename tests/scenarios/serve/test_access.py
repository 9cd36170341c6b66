"""`highwater serve --user`: a password comes out of a file, or one clear error does."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from cluster.live.tls import server_context
from cluster.security import OPEN, ListenerSecurity
from scenarios.cli.serve import serve
from scenarios.serve.access import AccessRefused, own_files, passwords_of, super_users_of, throw_away_files
from scenarios.serve.serving import client_settings


def file(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    path = folder / "password"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("content", [b"a secret", b"a secret\n", b"a secret\r\n"])
def test_the_password_is_the_first_line_of_its_file(tmp_path, content):
    assert passwords_of([f"alice:{file(tmp_path, content)}"]) == {"alice": "a secret"}


@pytest.mark.parametrize("wish", ["alice", ":file", "alice:", ""])
def test_a_user_without_name_or_file_is_refused(wish):
    with pytest.raises(AccessRefused, match="must be NAME:PASSWORD-FILE, for example"):
        passwords_of([wish])


@pytest.mark.parametrize(
    "content, told",
    [
        (b"", "there is no password in"),
        (b"\n", "there is no password in"),
        (b"one\ntwo\n", "must contain only the password, one line of at most 1024 bytes"),
        (b"x" * 1025, "must contain only the password, one line of at most 1024 bytes"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"a\0b", "there is no password in"),
    ],
)
def test_a_file_that_holds_no_password_is_refused(tmp_path, content, told):
    with pytest.raises(AccessRefused, match=told):
        passwords_of([f"alice:{file(tmp_path, content)}"])


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_may_open_is_refused_with_the_way_out(tmp_path, mode):
    path = file(tmp_path, b"a secret", mode)
    with pytest.raises(AccessRefused, match=f"other users may open {path}, which has a password; run chmod 600 {path}"):
        passwords_of([f"alice:{path}"])


def test_other_faults_say_which_user_and_why(tmp_path):
    with pytest.raises(AccessRefused, match=f"--user alice: {tmp_path}/no cannot be read: No such file or directory"):
        passwords_of([f"alice:{tmp_path}/no"])
    with pytest.raises(AccessRefused, match=f"--user alice: {tmp_path} cannot be read: Is a directory"):
        passwords_of([f"alice:{tmp_path}"])
    path = file(tmp_path, b"a secret")
    with pytest.raises(AccessRefused, match="--user names `alice` twice"):
        passwords_of([f"alice:{path}", f"alice:{path}"])
    with pytest.raises(AccessRefused, match="must have only printable characters"):
        passwords_of([f"al\nice:{path}"])


def test_the_command_ends_with_it_before_anything_starts(tmp_path):
    done = CliRunner().invoke(serve, ["--user", "alice", "--record", str(tmp_path)])
    assert done.exit_code == 2
    assert "--user must be NAME:PASSWORD-FILE" in done.output
    assert list(tmp_path.iterdir()) == []


def test_no_password_is_in_the_words_for_it():
    security = ListenerSecurity.of({"alice": "a secret"})
    assert "a secret" not in f"{security!r} {security} {security.scram}"
    assert security != ListenerSecurity.of({"alice": "a secret"})  # salts of its own


# ---------------------------------------------------------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """Two certificates, each with its key."""
    folder = tmp_path_factory.mktemp("certificates")
    return [throw_away_files(folder / name, ("127.0.0.1",)) for name in ("one", "other")]


def test_the_throw_away_authority_signs_for_the_address_and_keeps_the_key_to_its_owner(certified):
    files = certified[0]
    server_context(files)
    assert files.key.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in sorted(files.key.parent.iterdir())] == ["ca.pem", "server.key", "server.pem"]
    assert own_files(files.certificate, files.key) == files


def test_a_key_of_another_certificate_is_refused(certified):
    one, other = certified
    with pytest.raises(
        AccessRefused, match=f"the private key {other.key} does not belong to the certificate {one.certificate}"
    ):
        own_files(one.certificate, other.key)


@pytest.mark.parametrize("content", [b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_refused(tmp_path, certified, content):
    with pytest.raises(AccessRefused, match="are not a PEM certificate and its key"):
        own_files(file(tmp_path, content), certified[0].key)


def test_a_certificate_that_is_not_there_is_refused(tmp_path, certified):
    with pytest.raises(AccessRefused, match=f"{tmp_path}/no cannot be read: No such file or directory"):
        own_files(tmp_path / "no", certified[0].key)


@pytest.mark.parametrize("option", ["--tls-cert", "--tls-key"])
def test_a_certificate_without_its_key_is_refused(tmp_path, option):
    done = CliRunner().invoke(serve, [option, "file", "--record", str(tmp_path)])
    assert (done.exit_code, "must be given together" in done.output) == (2, True)


def test_what_clients_have_to_set_is_said_without_the_password(certified):
    assert client_settings(OPEN) == []
    assert client_settings(ListenerSecurity.of({}, certified[0])) == [
        "security.protocol=SSL",
        f"ssl.ca.location={certified[0].certificate.parent}/ca.pem",
    ]
    assert client_settings(ListenerSecurity.of({"alice": "a secret", "bob": "another"})) == [
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=SCRAM-SHA-256",
        "sasl.username=alice",
        "sasl.password=...",
    ]


# ------------------------------------------------------------------------------------------------------ who may do what


def test_super_users_are_named_with_or_without_their_type():
    given = ["alice", "User:bob", "alice"]
    wanted = super_users_of(given, authorizes=True, in_zookeeper_era=False, allows_unruled=False)
    assert wanted == ("User:alice", "User:bob")
    assert super_users_of([], authorizes=False, in_zookeeper_era=True, allows_unruled=False) is None


def test_where_everybody_may_do_what_no_rule_is_about_no_super_user_is_needed():
    """As in Kafka with allow.everyone.if.no.acl.found: rules count, and none exempts anyone."""
    assert super_users_of([], authorizes=True, in_zookeeper_era=False, allows_unruled=True) == ()


@pytest.mark.parametrize(
    "options, told",
    [
        (["--authorize"], "no user may add the first ACL"),
        (["--super-user", "alice"], "--super-user needs --authorize"),
        (["--authorize", "--super-user", "User:"], "must be the name of a user"),
        (["--authorize", "--super-user", "alice", "--profile", "kafka-2.0"], "choose a later --profile"),
    ],
)
def test_rules_without_a_user_who_could_set_them_are_refused(tmp_path, options, told):
    done = CliRunner().invoke(serve, [*options, "--record", str(tmp_path)])
    assert done.exit_code == 2
    assert told in done.output
