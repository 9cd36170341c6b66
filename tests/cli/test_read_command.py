"""`highwater read`: its options, its errors, and the tables that it writes for Spark."""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command import Highwater

GOLDEN = Path(__file__).parents[1] / "golden" / "logdirs" / "kafka-4.1-diverged.tar.xz"


@pytest.fixture
def brokers(tmp_path: Path) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(GOLDEN.read_bytes()))) as archive:
        archive.extractall(tmp_path, filter="data")
    return ["b1", "b2", "b3"]


def test_the_same_tables_as_json_and_as_parquet(brokers: list[str], highwater: Highwater, tmp_path: Path) -> None:
    done = highwater("read", *brokers, "--format", "json", "--parquet", "tables")
    assert (done.code, done.document["sound"]) == (1, False)
    for name, rows in done.document.items():
        if name not in ("profile", "sound", "notes"):
            assert pq.read_table(tmp_path / "tables" / f"{name}.parquet").to_pylist() == rows, name
    batches = pq.read_table(tmp_path / "tables" / "batches.parquet").to_pylist()
    assert len(batches) == sum(row["batches"] for row in done.document["replicas"]) == 22 + 17 + 10
    assert sorted({row["codec"] for row in batches}) == ["gzip", "lz4", "none", "snappy", "zstd"]
    assert [(row["replica"], row["parts_at"], row["cut_to"]) for row in done.document["returns"]] == [
        ("1", 35, 35),
        ("3", None, 35),
    ]


def test_another_leader_by_the_rules_of_another_era(brokers: list[str], highwater: Highwater) -> None:
    done = highwater("read", *brokers, "--leader", "3", "--profile", "kafka-0.10", "--topic", "t", "--format", "json")
    rows = done.document["returns"]
    assert [(row["leader"], row["replica"], row["cut_to"]) for row in rows] == [("3", "1", 35), ("3", "2", 35)]


def test_a_follower_that_only_lacks_records_does_not_diverge(brokers: list[str], highwater: Highwater) -> None:
    done = highwater("read", "b2", "b3", "--leader", "2", "--format", "json")
    assert (done.code, done.document["sound"]) == (0, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--leader", "9"], 2, "choose --leader from 1, 2, 3"),
        (["--topic", "\x1b[31mred"], 2, "choose --topic from t"),
        (["--profile", "kafka-9"], 2, "kafka-4.1"),
        (["--parquet", "b2/t-0/tables"], 2, "choose another --parquet"),
        (["absent"], 2, "there is no such directory"),
        (["b1/meta.properties/logs"], 2, "b1/meta.properties is a file"),
        (["."], 2, "log directories in it: b1, b2, b3"),
        (["--parquet", "b1/../b1"], 2, "where nothing may be written"),
    ],
)
def test_one_clear_error(words: list[str], code: int, said: str, brokers: list[str], highwater: Highwater) -> None:
    done = highwater("read", *brokers, *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err and "\x1b" not in done.err
    assert not (Path("b2") / "t-0" / "tables").exists()
