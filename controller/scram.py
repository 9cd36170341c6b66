"""SCRAM credentials of users, which are stored instead of passwords, and their changes by admin clients.
Source: ScramMechanism.java, ScramFormatter.java, ScramControlManager.java (KIP-554, KIP-900)
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final, NamedTuple

from controller.changes import Journal
from controller.inputs import AlterScramCredential, Bootstrap, PlainReply
from controller.metadata import MetadataRecord, RemoveUserScramCredentialRecord, UserScramCredentialRecord
from replica.errors import ErrorCode

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16_384


class ScramMechanism(NamedTuple):
    """A SCRAM mechanism. `type` is the mechanism's code in requests and records."""

    name: str
    type: int
    algorithm: str

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.algorithm, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.algorithm)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Hash a password with the function Hi of RFC 5802. As in Kafka, SASLprep is not applied to the password."""
        return hashlib.pbkdf2_hmac(self.algorithm, password.encode(), salt, iterations)

    def credential(self, user: str, salt: bytes, salted_password: bytes, iterations: int) -> UserScramCredentialRecord:
        return UserScramCredentialRecord(
            name=user,
            mechanism=self.type,
            salt=salt.hex(),
            stored_key=self.hash(self.hmac(salted_password, b"Client Key")).hex(),
            server_key=self.hmac(salted_password, b"Server Key").hex(),
            iterations=iterations,
        )


MECHANISMS: Final = {
    mechanism.type: mechanism
    for mechanism in (ScramMechanism("SCRAM-SHA-256", 1, "sha256"), ScramMechanism("SCRAM-SHA-512", 2, "sha512"))
}


class ScramControl:
    """The part of the controller that changes SCRAM credentials."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def alter(self, event: AlterScramCredential) -> None:
        """Set or remove the credential of a user for one mechanism."""
        error, message = self._refusal(event)
        if error is ErrorCode.NONE:
            self._journal.append(self._record(event))
        self._journal.reply(PlainReply(error=error, message=message))

    def _refusal(self, event: AlterScramCredential) -> tuple[ErrorCode, str]:
        """Return the error and the message of an invalid change, else NONE and "". The checks have Kafka's order."""
        if not event.user:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
        if event.mechanism not in MECHANISMS:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
        if event.salted_password is None:
            if (event.user, event.mechanism) not in self._journal.image.scram:
                return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        elif event.iterations < MIN_ITERATIONS:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
        elif event.iterations > MAX_ITERATIONS:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
        return ErrorCode.NONE, ""

    def _record(self, event: AlterScramCredential) -> MetadataRecord:
        if event.salted_password is None:
            return RemoveUserScramCredentialRecord(name=event.user, mechanism=event.mechanism)
        mechanism = MECHANISMS[event.mechanism]
        return mechanism.credential(event.user, event.salt, event.salted_password, event.iterations)

    def bootstrap(self, event: Bootstrap) -> None:
        """Append the first records of a new cluster, which come from `kafka-storage format --add-scram`."""
        for record in event.records:
            self._journal.append(record)


def credentials_of(user: str, password: str, salts: Iterable[bytes]) -> list[UserScramCredentialRecord]:
    """Return a user's credentials for all mechanisms. `salts` has one salt per mechanism."""
    return [
        mechanism.credential(
            user, salt, mechanism.salted_password(password, salt, MIN_ITERATIONS), iterations=MIN_ITERATIONS
        )
        for mechanism, salt in zip(MECHANISMS.values(), salts, strict=True)
    ]
