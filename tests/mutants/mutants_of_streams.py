"""Guards of streams groups (KIP-1071): who has which task, and what a failed write leaves."""

from __future__ import annotations

from mutant import Mutant, mutant

MEMBERSHIP = "cluster.groups.streams_membership"
GROUP = "cluster.groups.state.streams_group"
OF_GROUPS = "test tests/cluster/groups/test_streams_groups.py::"

OF_STREAMS: tuple[Mutant, ...] = (
    mutant(
        "task-is-given-twice",
        "An active task is given to a member once its holder has given it up (S34)",
        GROUP,
        "(is_near or item.kind == task.kind == ACTIVE)",
        "is_near",
        OF_GROUPS + "test_a_task_is_with_one_member_and_on_a_process_once[0-dynamic]",
    ),
    mutant(
        "process-has-a-task-twice",
        "Members of one process, which share local state, have a task once",
        GROUP,
        "(is_near or item.kind == task.kind == ACTIVE)",
        "item.kind == task.kind == ACTIVE",
        OF_GROUPS + "test_a_task_is_with_one_member_and_on_a_process_once[1-dynamic]",
    ),
    mutant(
        "static-return-rebalances",
        "A static member of a streams group that returns to its process causes no rebalance",
        MEMBERSHIP,
        "_place(after) != _place(before) if event.instance_id is not None else after != before",
        "after != before",
        OF_GROUPS + "test_a_static_member_returns_to_its_tasks_without_a_rebalance",
    ),
    mutant(
        "refused-member-replaces",
        "A static member whose heartbeat is refused does not take the place of the former one",
        MEMBERSHIP,
        "            change.abandon()  # The former id of a static member may already be replaced.\n",
        "",
        OF_GROUPS + "test_a_refused_static_member_leaves_the_group_as_it_was",
    ),
    mutant(
        "full-group-keeps-out-its-own",
        "Since 4.4 a static member may return to a full group",
        "cluster.groups.desk",
        "self._static_may_return and instance_id is not None",
        "False and instance_id is not None",
        OF_GROUPS + "test_a_full_group_lets_a_static_member_return",
    ),
    mutant(
        "unwritten-topology-stays",
        "A topology that could not be written is taken back",
        MEMBERSHIP,
        "        change.take_back_with(take_back)\n",
        "",
        OF_GROUPS + "test_a_failed_write_takes_back_the_topology_too",
    ),
    mutant(
        "moved-task-is-not-told",
        "Members learn of tasks that move between endpoints",
        MEMBERSHIP,
        "or (after.assigned != before.assigned and after.user_endpoint is not None)",
        "or False",
        OF_GROUPS + "test_members_learn_who_reads_what_when_a_member_comes_and_tasks_move",
    ),
)
