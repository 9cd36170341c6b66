"""The leader-epoch cache: Kafka's LeaderEpochFileCacheTest, retold, and S15."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.log.leader_epochs import LeaderEpochCache

LEO = 100


def cache_of(*entries: tuple[int, int]) -> LeaderEpochCache:
    cache = LeaderEpochCache()
    for epoch, start in entries:
        cache.assign(epoch, start)
    return cache


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        pytest.param(-1, (-1, -1), id="undefined"),
        pytest.param(7, (7, LEO), id="latest ends at the log end"),
        pytest.param(8, (-1, -1), id="newer than all known"),
        pytest.param(1, (1, 11), id="older than all known: itself, up to the first entry"),
        pytest.param(2, (2, 20), id="known"),
        pytest.param(3, (2, 20), id="between two: the older one"),
        pytest.param(5, (4, 60), id="between two: where the newer one begins"),
    ],
)
def test_end_offset_for(asked, answer):
    assert cache_of((2, 11), (4, 20), (7, 60)).end_offset_for(asked, LEO) == answer


def test_an_empty_cache_knows_nothing():
    assert LeaderEpochCache().end_offset_for(3, LEO) == (-1, -1)
    assert LeaderEpochCache().latest_epoch is None


@pytest.mark.parametrize(
    ("assigned", "entries"),
    [
        pytest.param((7, 80), ((2, 11), (4, 20), (7, 60)), id="latest again: nothing changes"),
        pytest.param((7, 40), ((2, 11), (4, 20), (7, 40)), id="latest, but earlier"),
        pytest.param((8, 60), ((2, 11), (4, 20), (8, 60)), id="the latest never had a record"),
        pytest.param((8, 15), ((2, 11), (8, 15)), id="offsets must rise"),
        pytest.param((3, 90), ((2, 11), (3, 90)), id="epochs must rise"),
        pytest.param((-1, 90), ((2, 11), (4, 20), (7, 60)), id="a batch without an epoch"),
    ],
)
def test_assign_drops_what_the_new_entry_contradicts(assigned, entries):
    cache = cache_of((2, 11), (4, 20), (7, 60))
    cache.assign(*assigned)
    assert cache.entries == entries


@pytest.mark.parametrize(
    ("end", "entries"), [(61, ((2, 11), (4, 20), (7, 60))), (60, ((2, 11), (4, 20))), (20, ((2, 11),)), (0, ())]
)
def test_truncate_from_end(end, entries):
    cache = cache_of((2, 11), (4, 20), (7, 60))
    cache.truncate_from_end(end)
    assert cache.entries == entries


@pytest.mark.parametrize(
    ("start", "entries"),
    [
        pytest.param(5, ((2, 11), (4, 20), (7, 60)), id="before all"),
        pytest.param(11, ((2, 11), (4, 20), (7, 60)), id="exactly the first"),
        pytest.param(15, ((2, 15), (4, 20), (7, 60)), id="inside the first"),
        pytest.param(20, ((4, 20), (7, 60)), id="exactly the second"),
        pytest.param(75, ((7, 75),), id="the epoch of the first kept record stays known"),
    ],
)
def test_truncate_from_start(start, entries):
    cache = cache_of((2, 11), (4, 20), (7, 60))
    cache.truncate_from_start(start)
    assert cache.entries == entries


@given(st.lists(st.tuples(st.sampled_from(["assign", "end", "start"]), st.integers(0, 20), st.integers(0, 50))))
def test_always_strictly_increasing_and_the_file_agrees(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("epochs") / "leader-epoch-checkpoint"
    cache = LeaderEpochCache(path)
    for verb, epoch, offset in steps:
        match verb:
            case "assign":
                cache.assign(epoch, offset)
                assert cache.latest_epoch == epoch
            case "end":
                cache.truncate_from_end(offset)
                assert all(start < offset for _, start in cache.entries)
            case "start":
                known = cache.epoch_for_offset(offset)
                cache.truncate_from_start(offset)
                assert cache.epoch_for_offset(offset) == known
        epochs, starts = [e for e, _ in cache.entries], [s for _, s in cache.entries]
        assert epochs == sorted(set(epochs))
        assert starts == sorted(set(starts))
    assert LeaderEpochCache(path).entries == cache.entries


def test_the_file_has_kafkas_format(tmp_path):
    path = tmp_path / "leader-epoch-checkpoint"
    cache = LeaderEpochCache(path)
    cache.assign(0, 0)
    cache.assign(3, 17)
    assert path.read_text() == "0\n2\n0 0\n3 17\n"
    cache.clear()
    assert path.read_text() == "0\n0\n"


@pytest.mark.parametrize("content", ["", "1\n0\n", "0\n2\n0 0\n", "0\n1\n0\n", "0\n1\nx 0\n", "\udcff"])
def test_a_damaged_file_is_an_empty_cache(tmp_path, content):
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(content.encode(errors="surrogateescape"))
    assert LeaderEpochCache(path).entries == ()
