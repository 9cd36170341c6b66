"""The group `highwater bench` with the commands of all modules here, each of which adds its own."""

from __future__ import annotations

from scenarios.cli.bench import memory, wire
from scenarios.cli.bench.commands import bench

__all__ = ["bench", "memory", "wire"]
