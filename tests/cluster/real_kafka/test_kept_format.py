"""What Kafka's StorageTool writes is kept for later runs, beside the jars of an installed version."""

from __future__ import annotations

from pathlib import Path

from cluster.kafka.home import KafkaHome, KafkaJars
from cluster.kafka.java import JavaRuntime
from cluster.kafka.storage import META, format_directory, keep_checkpoints

JAVA = JavaRuntime(Path("java"), "17", "17+1", Path("jdk"))


def test_each_set_of_features_has_its_own_place_and_a_folder_of_the_user_none(tmp_path: Path) -> None:
    home = KafkaHome(KafkaJars(tmp_path, tmp_path, "4.1.0", is_installed=True), JAVA)
    places = [home.format_place(features) for features in ({}, {"a": 0}, {"a": 1}, {"b": 2, "a": 1})]
    assert len(set(places)) == 4 and None not in places
    assert home.format_place({"a": 1, "b": 2}) == places[-1]
    assert KafkaHome(KafkaJars(tmp_path, tmp_path, "4.1.0", is_installed=False), JAVA).format_place({}) is None


def test_the_first_that_is_kept_stays_and_nothing_half_done_is_left(tmp_path: Path) -> None:
    made, place = tmp_path / "made", tmp_path / "formats" / "a=1"
    made.mkdir()
    (made / "bootstrap.checkpoint").write_text("first")
    keep_checkpoints(made, place)
    (made / "bootstrap.checkpoint").write_text("second")
    keep_checkpoints(made, place)
    assert (place / "bootstrap.checkpoint").read_text() == "first"
    assert [path.name for path in place.parent.iterdir()] == ["a=1"]


def test_a_controller_gets_what_the_tool_has_made_and_a_broker_only_its_properties(tmp_path: Path) -> None:
    """Since 4.4 the tool makes a snapshot in the folder of the metadata log."""
    snapshot = Path("__cluster_metadata-0", "00000000000000000000-0000000000.checkpoint")
    (tmp_path / "made" / snapshot).parent.mkdir(parents=True)
    (tmp_path / "made" / snapshot).write_text("features")
    format_directory(tmp_path / "c1", 1001, tmp_path / "made")
    format_directory(tmp_path / "b1", 1, None)
    assert (tmp_path / "c1" / snapshot).read_text() == "features"
    assert (tmp_path / "c1" / META).is_file()
    assert [path.name for path in (tmp_path / "b1").iterdir()] == [META]
