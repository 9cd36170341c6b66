"""`python -m tests.bench`: what developers measure, a command for each subject."""

from __future__ import annotations

from tests.bench import memory, wire_screen
from tests.bench.commands import bench

__all__ = ["bench", "memory", "wire_screen"]

if __name__ == "__main__":
    bench()
