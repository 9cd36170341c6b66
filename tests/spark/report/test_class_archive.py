"""The archive of Spark's classes: what it is bound to, what takes its place, and that damage only costs time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_reports.class_archive import NotKept, archive_stem, kept_archive, new_archive
from spark_reports.java import Java

JAVA = Java(Path("/opt/java/bin/java"), "17.0.15", lacks_vector_module=False)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "highwater" / "spark"


def test_another_java_has_another_archive() -> None:
    assert archive_stem(JAVA) == archive_stem(JAVA)
    assert archive_stem(JAVA) != archive_stem(JAVA._replace(version="21.0.1"))
    assert archive_stem(JAVA) != archive_stem(JAVA._replace(executable=Path("/usr/bin/env")))


def test_a_new_archive_takes_the_place_of_earlier_ones(cache: Path) -> None:
    assert kept_archive(JAVA) is None
    for java in (JAVA._replace(version="21.0.1"), JAVA):
        with new_archive(java) as archive:
            assert kept_archive(java) is None
            archive.file.write_bytes(b"classes")
    found = kept_archive(JAVA)
    assert found is not None
    assert not found.is_new
    assert sorted(cache.iterdir()) == sorted([found.file, found.settings_folder])
    assert not any(found.settings_folder.iterdir())


def test_a_jvm_that_writes_none_is_an_error_and_leaves_the_earlier_one(cache: Path) -> None:
    with new_archive(JAVA) as archive:
        archive.file.write_bytes(b"classes")
    with pytest.raises(NotKept, match="has written no archive"), new_archive(JAVA):
        pass
    assert kept_archive(JAVA) is not None
    assert len(list(cache.iterdir())) == 2


def test_an_archive_that_was_cut_off_is_none() -> None:
    """The JVM (17) dies of it: SIGBUS."""
    with new_archive(JAVA) as archive:
        archive.file.write_bytes(b"classes")
    found = kept_archive(JAVA)
    assert found is not None
    os.truncate(found.file, 3)
    assert kept_archive(JAVA) is None


def test_a_cache_that_takes_no_files_is_an_error_and_no_archive(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file where the folder would be")
    with pytest.raises(NotKept, match="the cache folder takes no files"), new_archive(JAVA):
        pass
    assert kept_archive(JAVA) is None


def test_a_path_with_a_space_and_a_quote_is_one_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / 'my "cache"'))
    with new_archive(JAVA) as archive:
        assert f'"-XX:ArchiveClassesAtExit={tmp_path}/my \\"cache\\"/highwater/spark/' in archive.options()
        archive.file.touch()


SESSION = """\
import json, re, sys
from pathlib import Path
from spark_reports.class_archive import new_archive
from spark_reports.java import find_java
from spark_reports.session import spark_session
from spark_reports.settings import SMALL_TRACE_SETTINGS

def session(archive=None):
    with spark_session("local[1]", SMALL_TRACE_SETTINGS, archive) as spark:
        count = spark.range(10).count()
        pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
        maps = Path(f"/proc/{pid}/maps").read_text()
    return [count, "highwater/spark/classes-" in maps]

if sys.argv[1] == "make":
    with new_archive(find_java()) as archive:
        session(archive)
print(json.dumps(session()))
"""


@pytest.mark.soak
def test_spark_uses_a_sound_archive_and_does_without_a_damaged_one(cache: Path) -> None:
    assert _session("make") == [10, True]
    (file,) = cache.glob("classes-*.jsa")
    assert _session("use") == [10, True]
    settings = cache / "no-settings" / "spark-defaults.conf"
    settings.write_text("spark.app.name other\n")
    assert _session("use") == [10, False]
    settings.unlink()
    size = file.stat().st_size
    os.truncate(file, 1_000_000)
    assert _session("use") == [10, False]
    file.write_bytes(bytes(size))
    assert _session("use") == [10, False]


def _session(what: str) -> list[object]:
    done = subprocess.run([sys.executable, "-c", SESSION, what], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    answer: list[object] = json.loads(done.stdout)
    return answer
