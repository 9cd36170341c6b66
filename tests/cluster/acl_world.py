"""A broker with rules of who may do what: alice is a super user, and anybody who logs in is known by name."""

from __future__ import annotations

from typing import Any

from sasl_world import ALICE, SALTS, SECRET, Client, SaslWorld, security

from cluster.protocol.versions import CREATE_ACLS
from cluster.security import ListenerSecurity
from controller.access import Operation, PatternType, Permission, ResourceType
from controller.scram import credentials_of

BOB, CAROL = "bob", "carol"


def rule(
    user: str,
    operation: Operation,
    kind: ResourceType = ResourceType.TOPIC,
    name: str = "t",
    *,
    pattern: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
    host: str = "*",
) -> dict[str, Any]:
    """As a CreateAcls request has it."""
    return {
        "resource_type": int(kind),
        "resource_name": name,
        "resource_pattern_type": int(pattern),
        "principal": f"User:{user}",
        "host": host,
        "operation": int(operation),
        "permission_type": int(permission),
    }


class AclWorld(SaslWorld):
    """Users: alice, bob and carol, all with the same password."""

    def make_security(self) -> ListenerSecurity:
        users = (ALICE, BOB, CAROL)
        credentials = tuple(one for user in users for one in credentials_of(user, SECRET, SALTS))
        made = security()
        return ListenerSecurity(
            dict.fromkeys(users, SECRET), credentials, made.new_nonce, super_users=(f"User:{ALICE}",)
        )

    def user(self, name: str) -> Client:
        client = self.client()
        client.plain(name)
        return client

    def allow(self, *rules: dict[str, Any]) -> None:
        answer = self.user(ALICE).ask(CREATE_ACLS, 3, creations=list(rules))
        assert [int(result.error_code) for result in answer.results] == [0] * len(rules)
