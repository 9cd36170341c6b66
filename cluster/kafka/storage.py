"""A directory that Kafka accepts as formatted: what `kafka-storage format` writes.

The records of the bootstrap checkpoint (metadata.version and features) come from Kafka's own StorageTool, once for all
nodes and, with an installed version, for all runs; the rest is one small file a directory.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
META = "meta.properties"
CHECKPOINTS = "*.checkpoint"
FORMAT_S = 120


class NotFormatted(Exception):
    """Kafka's own tool refuses; the text is what it says."""


def format_checkpoints(command: Sequence[str], target: Path, scratch: Path) -> None:
    """Put the bootstrap checkpoint into `target`.

    command: of StorageTool for a node whose log.dirs is `scratch`     raises: NotFormatted
    """
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFormatted(str(error)) from error
    if done.returncode:
        raise NotFormatted((done.stderr.strip() or done.stdout.strip())[-2000:])
    target.mkdir(parents=True, exist_ok=True)
    for file in scratch.glob(CHECKPOINTS):
        shutil.copy(file, target)
    shutil.rmtree(scratch)


def keep_checkpoints(checkpoints: Path, place: Path) -> None:
    """For later runs. Where it cannot be kept, or another run has just kept the same, nothing is lost."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".format-", dir=place.parent) as scratch:
            shutil.copytree(checkpoints, Path(scratch) / place.name).rename(place)


def is_formatted(directory: Path) -> bool:
    return (directory / META).is_file()


def format_directory(directory: Path, node_id: int, checkpoints: Path) -> None:
    """An empty directory becomes one that Kafka starts on."""
    directory.mkdir(parents=True, exist_ok=True)
    for file in checkpoints.glob(CHECKPOINTS):
        shutil.copy(file, directory)
    (directory / META).write_text(
        f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={node_id}\ndirectory.id={_new_id()}\n", encoding="ascii"
    )


def _new_id() -> str:
    """A Uuid as Kafka prints one; none begins with a dash (Uuid.randomUuid)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text
