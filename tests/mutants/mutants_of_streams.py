"""Guards of streams groups (KIP-1071): who has which task, and what a failed write leaves."""

from __future__ import annotations

from mutant import Mutant, mutant

GROUP = "cluster.groups.state.streams_group"
OF_GROUPS = "test tests/cluster/groups/test_streams_groups.py::"

OF_STREAMS: tuple[Mutant, ...] = (
    mutant(
        "task-is-given-twice",
        "An active task is given to a member once its holder has given it up (S34)",
        GROUP,
        "(is_near or one.kind == task.kind == ACTIVE)",
        "is_near",
        OF_GROUPS + "test_a_task_is_with_one_member_and_on_a_process_once[0]",
    ),
    mutant(
        "process-has-a-task-twice",
        "Members of one process, which share local state, have a task once",
        GROUP,
        "(is_near or one.kind == task.kind == ACTIVE)",
        "one.kind == task.kind == ACTIVE",
        OF_GROUPS + "test_a_task_is_with_one_member_and_on_a_process_once[1]",
    ),
    mutant(
        "unwritten-topology-stays",
        "A topology that could not be written is taken back",
        "cluster.groups.streams_membership",
        "        change.take_back_with(take_back)\n",
        "",
        OF_GROUPS + "test_a_failed_write_takes_back_the_topology_too",
    ),
)
