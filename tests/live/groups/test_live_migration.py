"""librdkafka's consumers of both protocols in one group, which goes up to KIP-848's and down again while they read."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, KafkaException
from confluent_kafka.admin import AdminClient
from live_cluster import live_cluster
from test_live_consumer_groups import SETTINGS, member, produce, read, shared_by
from verdicts import expect_nothing_broken

from replica.trace.events import GroupMigrated
from tests.soak import one_in
from tests.waiting import wait_for

POLICY = "cluster.config.group.consumer.migration.policy"
PATIENT = (
    *SETTINGS,
    "cluster.config.group.consumer.session.timeout.ms=45000",
    "cluster.config.broker.session.timeout.ms=20000",
)
"""Members go by closing alone, and no broker goes, however slow the machine is: one that was given up would change the
group, too."""


def classic(bootstrap: str, strategy: str = "range", **settings: str) -> Consumer:
    own = {"group.protocol": "classic", "partition.assignment.strategy": strategy, "heartbeat.interval.ms": "200"}
    return member(bootstrap, settings={**own, **settings})


def kind(bootstrap: str) -> ConsumerGroupType:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return next(one.type for one in admin.list_consumer_groups().result().valid if one.group_id == "g")


@pytest.mark.soak
@pytest.mark.parametrize("strategy", one_in(2, ["range", "cooperative-sticky"]))
def test_a_group_goes_up_and_down_while_it_reads(tmp_path: Path, strategy: str) -> None:
    # Both come in one generation: from the next one on librdkafka's sticky assignor adds its own data to assignments,
    # and such a group may not change its protocol.
    settings = (*PATIENT, "cluster.config.group.initial.rebalance.delay.ms=3000")
    with live_cluster(tmp_path, "orders:3:3", settings=settings) as cluster:
        produce(cluster.bootstrap, range(30))
        one, two = classic(cluster.bootstrap, strategy), classic(cluster.bootstrap, strategy)
        wait_for(lambda: shared_by(one, two))
        assert kind(cluster.bootstrap) is ConsumerGroupType.CLASSIC
        new = member(cluster.bootstrap)
        wait_for(lambda: shared_by(one, two, new))
        assert kind(cluster.bootstrap) is ConsumerGroupType.CONSUMER
        one.close()
        wait_for(lambda: shared_by(two, new))
        two.close()
        wait_for(lambda: shared_by(new))
        back = classic(cluster.bootstrap, strategy)
        wait_for(lambda: shared_by(new, back))
        new.close()
        wait_for(lambda: shared_by(back))
        assert kind(cluster.bootstrap) is ConsumerGroupType.CLASSIC
        produce(cluster.bootstrap, range(30, 36))
        seen: set[int] = set()

        def all_there() -> bool:
            seen.update(read(back, 1))
            return seen >= set(range(30, 36))

        wait_for(all_there)
        back.close()
        protocols = [event.protocol for event in cluster.events(GroupMigrated)]
        assert protocols == ["consumer", "classic"]
    expect_nothing_broken(cluster.result.summary)


@pytest.mark.soak
def test_a_static_member_changes_its_protocol_in_place(tmp_path: Path) -> None:
    with live_cluster(tmp_path, "orders:3:3", settings=PATIENT) as cluster:
        one = classic(cluster.bootstrap, **{"group.instance.id": "i1"})
        two = classic(cluster.bootstrap, **{"group.instance.id": "i2"})
        wait_for(lambda: shared_by(one, two))
        one.close()
        again = member(cluster.bootstrap, settings={"group.instance.id": "i1"})
        wait_for(lambda: shared_by(again, two))
        assert kind(cluster.bootstrap) is ConsumerGroupType.CONSUMER
        again.close()
        back = classic(cluster.bootstrap, **{"group.instance.id": "i1"})
        wait_for(lambda: shared_by(back, two))
        assert kind(cluster.bootstrap) is ConsumerGroupType.CLASSIC
        back.close()
        two.close()
    expect_nothing_broken(cluster.result.summary)


def test_a_group_that_may_not_change_its_protocol_refuses_the_new_member(tmp_path: Path) -> None:
    with live_cluster(tmp_path, "orders:3:3", settings=(*PATIENT, f"{POLICY}=disabled")) as cluster:
        one = classic(cluster.bootstrap)
        wait_for(lambda: shared_by(one))
        new = member(cluster.bootstrap)
        told: list[str] = []

        def refused() -> bool:
            one.poll(0.05)
            try:
                message = new.poll(0.05)
            except KafkaException as error:
                told.append(str(error))
                return True
            error = None if message is None else message.error()
            told.extend([] if error is None else [str(error)])
            return error is not None

        wait_for(refused)
        assert "The group id does not exist" in told[-1]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        described = admin.describe_consumer_groups(["g"])["g"].result()
        assert described.state is ConsumerGroupState.STABLE
        assert len(described.members) == 1
        one.close()
        new.close()
