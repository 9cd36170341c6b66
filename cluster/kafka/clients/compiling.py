"""The program of the clients' JVM: one Java source, compiled against the jars of a version of Kafka."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("KafkaClients.java")
MAIN = "KafkaClients"
COMPILE_S = 180


class NotCompiled(Exception):
    """`javac` refuses the source; the text is what it says."""


def classes_place(folder: Path) -> Path:
    """Another source has another place: a newer Highwater does not run an older one's program."""
    return folder / f"clients-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}"


def compiled(compiler: Path, classpath: str, folder: Path) -> Path:
    """The folder of the classes, below `folder`; compiled unless they are there. raises: NotCompiled, OSError"""
    place = classes_place(folder)
    if place.is_dir():
        return place
    folder.mkdir(parents=True, exist_ok=True)
    classes = Path(tempfile.mkdtemp(prefix=".clients-", dir=folder))
    try:
        command = [str(compiler), "-nowarn", "-proc:none", "-cp", classpath, "-d", str(classes), str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)
        if done.returncode:
            raise NotCompiled(f"{compiler} refuses {SOURCE.name}: {done.stderr.strip()[-2000:]}")
        try:
            classes.rename(place)
        except OSError:
            if not place.is_dir():
                raise
            # Another process was faster.
    except subprocess.TimeoutExpired as error:
        raise NotCompiled(f"{compiler} takes more than {COMPILE_S} s") from error
    finally:
        shutil.rmtree(classes, ignore_errors=True)
    return place
