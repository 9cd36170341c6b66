"""A node's process that dies leaves its reason behind, whatever it dies of."""

from __future__ import annotations

import resource
import subprocess
import sys

from scenarios.process.forks import Forks

ALONE = """
from cluster.live.control import BytesTold, control_pair
from cluster.network.passage import ByteCounts
from scenarios.run.node_process import _send
ours, theirs = control_pair()
ours.close()
_send(theirs, BytesTold(ByteCounts()))
"""


def test_a_node_whose_cluster_is_gone_says_so() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "the control pair is closed at its other end: Broken pipe\n")


def test_a_fork_that_cannot_be_made_has_died_with_its_reason() -> None:
    forks = Forks()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        fork = forks.start("b1", print)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (fork.pid, fork.exitcode) == (None, 1)
    assert fork.last_words() == "no process could be started: [Errno 24] Too many open files"
