"""The voters in the metadata log of a controller, on its disk."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from cluster.controller_node.metadata_log import MetadataLog
from controller.image import MetadataImage
from controller.quorum.messages import OffsetAndEpoch, Voter
from controller.snapshot import snapshot_of
from replica.log.files.disk import Disk

FIRST = (Voter(101, UUID(int=1)), Voter(102, UUID(int=2)))


def opened(path: Path) -> MetadataLog:
    return MetadataLog(path, Disk(path, sync=False), 101, 0)


def test_the_latest_set_in_the_log_counts_and_truncation_brings_back_the_one_before(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert log.voters is None
    log.append_leader_change(1, 101, 0)
    log.append_voters(1, FIRST, 0)
    log.append_voters(1, FIRST[:1], 0)
    assert log.voters is not None and (log.voters.ids, log.voters.offset) == ((101,), 2)
    log.truncate_to(2)
    assert log.voters == (FIRST, 1)
    log.close_clean()
    assert opened(tmp_path).voters == (FIRST, 1)


def test_a_follower_reads_the_set_from_what_it_fetches_and_from_a_snapshot(tmp_path: Path) -> None:
    leader, follower = opened(tmp_path / "a"), opened(tmp_path / "b")
    leader.append_leader_change(1, 101, 0)
    leader.append_voters(1, FIRST, 0)
    end = OffsetAndEpoch(1, 2)
    image, _ = leader.image_at(2)
    leader.write_snapshot(snapshot_of(image, end, 0), 0)
    data = leader.read_snapshot(end)
    assert data is not None
    follower.replace_with_snapshot(end, data)
    assert follower.voters == (FIRST, 1)
    assert isinstance(image, MetadataImage) and image.feature_levels == {"kraft.version": 1}
