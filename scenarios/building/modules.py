"""Which modules mypyc compiles: those that work for every record, fetch, delivery or event of a run.

The rule: every module of these rooms, except those that
- are a trio shell (`async def`): trio looks into the frames of its tasks, which compiled coroutines lack;
- declare what is read at run time: trace events (pickled between processes, their annotations are the schema), Kafka's
  configuration keys;
- hold a class that C cannot hold: one that inherits from OSError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOMS = (
    "replica",
    "controller",
    "cluster",
    "scenarios/check",
    "scenarios/observe",
)
"""Folders, with all below them."""

PLAIN = {
    "cluster/kafka": "processes and files of real Kafka: they are what is waited for",
    "cluster/live": "sockets and processes",
    "replica/trace": "declarations of events: annotations are read as the schema, and events are pickled",
    "replica/frozen.py": "what mypy reads there is not what runs",
    "replica/config.py": "declarations of keys, which subclasses extend",
    "replica/passive_topic_keys.py": "the same",
    "cluster/config.py": "the same",
    "cluster/dynamic_keys.py": "the same",
    "cluster/client/producer/config.py": "the same",
    "cluster/protocol/zookeeper_era": "entities, whose class attributes kio reads",
    "cluster/network/passage.py": "the base of connections, which are shells",
    "replica/log/files/disk.py": "DiskFailed is an OSError",
    "scenarios/observe/columns/lazy_names.py": "a Sequence and a list",
}
"""Folder or file -> why it is left out."""

_SHELL = re.compile(r"^\s*(async def|async with|await )", re.MULTILINE)


def compiled_modules(root: Path) -> Iterator[str]:
    """Their files below `root`, in order of their names."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            file = path.relative_to(root).as_posix()
            if path.name in ("__init__.py", "__main__.py") or any(_is_within(file, plain) for plain in PLAIN):
                continue
            if not _SHELL.search(path.read_text(encoding="utf-8")):
                yield file


def _is_within(file: str, place: str) -> bool:
    return file == place or file.startswith(place + "/")
