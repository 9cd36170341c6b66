"""The meaning of each diagnostic code: the text of `highwater explain E104`. Codes are stable."""

from __future__ import annotations

EXPLANATIONS: dict[str, str] = {
    "E101": "The file cannot be read: it is missing, not a plain file, not readable, or not UTF-8 text.",
    "E102": "The file is larger, deeper or has more nodes than any scenario needs (1 MiB, 40 levels, 50,000 nodes).\n"
    "Scenarios are data from strangers, so loading them is bounded. Split the file, or use `every` and `times`.",
    "E103": "The text is not YAML. Usual causes: a missing quote, wrong indentation, a colon inside plain text\n"
    '(write title: "a: b"), brackets that are not closed.',
    "E104": "A key that the language does not have in this place. Keys are never ignored: a typo would otherwise\n"
    "change the lesson in silence.",
    "E105": "A key that must be there is missing.",
    "E106": "A tab character where YAML wants spaces. Set your editor to insert spaces.",
    "E107": "The same key twice in one mapping. YAML would keep the last one in silence.",
    "E108": "Anchors (&x), aliases (*x) and merge keys (<<) are refused: a few lines of them can stand for gigabytes,\n"
    "and a scenario should read from top to bottom. Repeat the text, or use `variants`.",
    "E109": "YAML tags (!!python/object, !x) are refused: a scenario is plain data.",
    "E110": "The value is not one of the words allowed here.",
    "E111": "The value has the wrong shape: a mapping, a list, a whole number, or true/false was expected.\n"
    "Only `true` and `false` are booleans; yes, no, on and off are just text.",
    "E112": "The number is out of range. Counts, offsets and sizes are never negative, and all have an upper bound.",
    "E113": "The name cannot be used. Topics follow Kafka's own rule: 1 to 249 of a-z A-Z 0-9 . _ - but not `.` or\n"
    "`..`, since a topic's name becomes a directory. Nodes, scenarios and labels: lower-case letters, digits, dashes.",
    "E120": "The language knows this, the program cannot do it yet: what an operator asks of a controller of the\n"
    "ZooKeeper era, other than the settings of a topic.",
    "E121": "A time without unit. Times are text with a unit, to leave nothing to guess: 1500ms, 1.5s, 2m, 250us.",
    "E122": "Not a time. Write a number and one of us, ms, s, m, such as 10.5s. 1:30 is not a time here.",
    "E123": "Not a rate, size, bandwidth or percentage. Write 10/s, 100/m; 100B, 1kB, 1MB; 50kB/s; 10%.",
    "E124": 'Not a set of records. Write r0..r9, "r0..r9, r15", none, {at_least: r3..r5}, {at_most: r0..r9}\n'
    "or {count: 5}.",
    "E125": "Not a selector. Write a name, a list of names, leader(t-0), followers(t-0), follower(t-0,1), isr(t-0),\n"
    'replicas(t-0), controller, brokers, clients, rack(A), others(b1), coordinator(GROUP), or "@name" after a step\n'
    "`as: name`.",
    "E126": "Not a key or value that Kafka accepts in this `config` block. Keys and units are Kafka's own:\n"
    "replica.lag.time.max.ms: 30000, without suffix. `never` stands for the largest number.",
    "E127": "Two rules that exclude each other. A file without `profile` has the rules of the newest era; an older\n"
    "`profile` turns back every rule that came after it.",
    "E130": "The step cannot do anything when its turn comes: it starts what is not down, wipes or tears a broker\n"
    "that is running, makes a topic that is there, or deletes one that is not. Steps are ordered by their time, not\n"
    "by their place in the file.",
    "E131": "A node, workload, topic, rack, fault or event of this name does not exist in the scenario, or a feature\n"
    "of this name not in Kafka.",
    "E132": "The topic has no partition of this number.",
    "E133": "`@name` stands for what an earlier step with `as: name` resolved to; there is no such step, or its time\n"
    "comes later.",
    "E134": "Names of nodes and clients share one space, labels of steps another; each may be given once.",
    "E135": "Every step has exactly one trigger (`at` or `when`) and exactly one verb; `timeout` needs `when`,\n"
    "`every` and `times` need each other, and `for` needs a verb that can be undone.",
    "E136": "The patch or the name of a variant cannot be used.",
    "E137": "The path of a `--set` or `--vary` leads nowhere. It is the path that error messages print, such as\n"
    "workloads.p1.config.acks or timeline.3.at (steps are counted from 1).",
    "E140": "The scenario asks for more than a run may hold (10,000,000 records, 31 brokers, 1,000 partitions,\n"
    "2,000 steps that fire 10,000 times, 8 questions).",
    "W201": "acks=all waits for the in-sync replicas, however few they are; with min.insync.replicas=1 that can be\n"
    "the leader alone. Set min.insync.replicas to 2 with three replicas.",
    "W202": "When min.insync.replicas equals the replication factor, one slow or stopped broker refuses every\n"
    "acks=all write. A larger value counts as the replication factor since Kafka 3.7; before, it refuses them all.",
    "W203": "This happens after the end of the run (`duration`), so it never happens.",
    "W204": "Without `expect` the run cannot pass or fail; it only reports.",
    "W205": "This step, or this key in the era of the run, changes nothing. A dead leader, for one, stays\n"
    "leader(t-0) until its session ends.",
    "W206": "The run ends before a follower could be dropped from the ISR: the check runs every half\n"
    "replica.lag.time.max.ms, so a cut link shows up 1 to 1.5 times that long after it.",
    "W207": "The expectation names a record that no producer sends: it is wrong, or a `produce` step is missing.",
    "W208": "A group or a transaction needs a coordinator, whose topic has three replicas. With fewer brokers set\n"
    "offsets.topic.replication.factor or transaction.state.log.replication.factor in cluster.config.",
    "W209": "The topic has been deleted by then: the producer looks for it until delivery.timeout.ms or max.block.ms\n"
    "is over, and the records fail. Move the step, or make the topic again with `create_topic`.",
    "W210": "A transactional.id is one producer's: the one that asks for it later fences the one before, which can\n"
    "then only be closed. Give each an id of its own, or `start` one later if the lesson is a zombie.",
    "W211": "Kafka's brokers have these keys; here they are taken and left out, so that a server.properties can be\n"
    "pasted into `cluster.config`: sockets, threads, listeners, paths, ids, ZooKeeper, security, tiered storage.",
}

MISTAKES = ("W202", "W203", "W205", "W207", "W208", "W209", "W210", "W211")
"""Warnings that a run begins with: the file does not do what it seems to. What the others say, the run itself shows."""


def explain(code: str) -> str | None:
    """The short text for `E104` in any case, or None if there is no such code."""
    text = EXPLANATIONS.get(code.upper())
    return None if text is None else f"{code.upper()}: {text}"
