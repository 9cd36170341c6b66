"""A quota of a scenario, as the controller is asked for it."""

from __future__ import annotations

from controller.client_quotas import CLIENT_ID, USER, entity_of
from controller.inputs import AlterClientQuota
from scenarios.language.spec import ClientQuota
from scenarios.language.steps import DEFAULT


def alteration(quota: ClientQuota, now_us: int) -> AlterClientQuota:
    """kafka-configs --entity-type clients, users"""
    names = {USER: quota.user, CLIENT_ID: quota.client}
    return AlterClientQuota(
        now_us=now_us,
        entity=entity_of({kind: None if name == DEFAULT else name for kind, name in names.items() if name is not None}),
        quotas={key: None if value is None else float(value) for key, value in quota.quota},
    )
