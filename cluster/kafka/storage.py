"""Formats directories for Kafka, as `kafka-storage format` does.

Kafka's own StorageTool writes the records of the bootstrap checkpoint (metadata.version and features). It runs once for
all controllers and, with an installed version, once for all runs. Besides, each directory needs one small file.
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
FORMAT_S = 120


class NotFormatted(Exception):
    """Kafka's StorageTool failed; the text is its message."""


def format_checkpoints(command: Sequence[str], target: Path, scratch: Path) -> None:
    """Create the bootstrap checkpoint in the folder `target`.

    Args:
        command: command line of StorageTool, with `scratch` as the node's log.dirs.

    Raises:
        NotFormatted: if the tool fails.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFormatted(str(error)) from error
    if done.returncode:
        raise NotFormatted((done.stderr.strip() or done.stdout.strip())[-2000:])
    # Up to 4.3 this is bootstrap.checkpoint; since 4.4 a snapshot in the folder of the metadata log.
    shutil.copytree(scratch, target, ignore=shutil.ignore_patterns(META))
    shutil.rmtree(scratch)


def keep_checkpoints(checkpoints: Path, folder: Path) -> None:
    """Copy checkpoints to `folder` for later runs. A failure to write there is ignored."""
    with contextlib.suppress(OSError):
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".format-", dir=folder.parent) as scratch:
            shutil.copytree(checkpoints, Path(scratch) / folder.name).rename(folder)


def is_formatted(directory: Path) -> bool:
    return (directory / META).is_file()


def format_directory(directory: Path, node_id: int, checkpoints: Path | None) -> None:
    """Format an empty directory for a Kafka node. `checkpoints` is None for a node that is no controller."""
    directory.mkdir(parents=True, exist_ok=True)
    if checkpoints is not None:
        shutil.copytree(checkpoints, directory, dirs_exist_ok=True)
    (directory / META).write_text(
        f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={node_id}\ndirectory.id={_new_id()}\n", encoding="ascii"
    )


def _new_id() -> str:
    """Return a new Uuid in Kafka's notation. It never begins with a dash (Uuid.randomUuid)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text
