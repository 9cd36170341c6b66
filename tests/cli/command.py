"""Shared by the tests of the `highwater` command: a scenario that loses two records, and an outcome."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

MINI = """
schema: 1
id: mini
title: A leader dies with what only it had
duration: 40s
cluster: {brokers: {b1: {}, b2: {}, b3: {}}}
topics: {t: {partitions: {0: [b1, b2, b3]}}}
workloads: {p1: {kind: producer, topic: t, config: {acks: 1, enable.idempotence: false}}}
timeline:
  - {at: 10s, cut: {between: [b1, [b2, b3]]}}
  - {at: 10.5s, produce: {from: p1, count: 2}}
  - {at: 11s, kill: b1}
expect: {verdict: [lost]}
variants:
  - {id: wrong, title: Expects what does not come, patch: {}, expect: {verdict: ok}}
  - {id: silent, patch: {timeline: []}, expect: {verdict: ok}}
"""

LIMITED = """
import resource, sys
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
from scenarios.cli.main import main
sys.argv = ["highwater", *sys.argv[1:]]
main()
"""
"""A command that may not write a file longer than {limit} bytes.

It writes no bytecode: Python would keep the first {limit} bytes of a module's, which every later command then reads.
"""


class Outcome(NamedTuple):
    """Exit code, stdout and stderr, as a shell sees them."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def error_lines(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.strip()]


Highwater = Callable[..., Outcome]
