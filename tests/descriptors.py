"""Which files, sockets and pipes this process has open."""

from __future__ import annotations

import gc
import os


def open_descriptors() -> dict[int, str]:
    """What each open descriptor of this process stands for: a path, or `socket:[...]`, `pipe:[...]`."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # The descriptor of the listing itself.
            continue
    return found


def descriptors_that_stay() -> dict[int, str]:
    """The same, when what earlier tests left in cycles is closed: the collector would close it at any later moment."""
    gc.collect()
    return open_descriptors()
