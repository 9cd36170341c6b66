"""What stands after the verbs that damage disks and set clocks."""

from __future__ import annotations

from scenarios.language.disk_steps import Bitflip, BumpClock, FailDisk, FillDisk, SlowDisk, StrobeClock
from scenarios.language.selectors import NOBODY, Selector
from scenarios.language.spec import Workload
from scenarios.language.values.reading import Fields
from scenarios.language.values.scope import BROKER, NO_PARTITION, Scope
from scenarios.language.values.service_times import SERVICE_TIME_KEYS, read_service_time
from scenarios.language.values.yaml_source import Mapping, Node, Scalar

STROBE_PERIOD_MIN_US = 1_000


def _brokers(scope: Scope, fields: Fields, key: str) -> Selector:
    return fields.read(key, lambda n, p: scope.some_nodes(n, p, f"`{key}`", BROKER), NOBODY)


# ---------------------------------------------------------------------------------------------------------- disk


def read_bitflip(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> Bitflip:
    known = ("broker", "partition", "offset")
    fields = scope.reader.fields(node, path, "`bitflip`", known, known)
    return Bitflip(
        broker=_brokers(scope, fields, "broker"),
        partition=fields.read("partition", lambda n, p: scope.partition(n, p, "`partition`"), NO_PARTITION),
        offset=fields.integer("offset", 0),
    )


def read_slow_disk(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> SlowDisk:
    fields = scope.reader.fields(node, path, "`slow_disk`", ("brokers", *SERVICE_TIME_KEYS, "log_dir"), ("brokers",))
    brokers = _brokers(scope, fields, "brokers")
    return SlowDisk(brokers, read_service_time(fields), _log_dir(scope, fields, brokers))


def _log_dir(scope: Scope, fields: Fields, brokers: Selector) -> str | None:
    """`log_dir: d2`, one of the brokers' `log.dirs`."""

    def read(node: Node, path: str) -> str:
        name = scope.reader.text(node, path, "`log_dir`")
        named = brokers.plain_names
        for broker in scope.brokers if named is None else named:
            known = scope.log_dirs.get(broker, ("",))
            if name not in known and (named is not None or not any(name in dirs for dirs in scope.log_dirs.values())):
                label = f"its log.dirs: {', '.join(known)}" if known != ("",) else "it has one, without a name"
                title = f"`{broker}` has no log directory `{name}`"
                scope.reader.error("E131", title, node.place, path=path, label=label)
                break
        return name

    return fields.read("log_dir", read, None)


def _disks(scope: Scope, node: Node, path: str, verb: str) -> tuple[Selector, str | None]:
    """Brokers, or `{brokers: b1, log_dir: d2}`."""
    if not isinstance(node, Mapping):
        return scope.some_nodes(node, path, f"`{verb}`", BROKER), None
    fields = scope.reader.fields(node, path, f"`{verb}`", ("brokers", "log_dir"), ("brokers",))
    brokers = _brokers(scope, fields, "brokers")
    return brokers, _log_dir(scope, fields, brokers)


def read_fill_disk(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> FillDisk:
    return FillDisk(*_disks(scope, node, path, "fill_disk"))


def read_fail_disk(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> FailDisk:
    return FailDisk(*_disks(scope, node, path, "fail_disk"))


# --------------------------------------------------------------------------------------------------------- clock


def _jump_us(scope: Scope, fields: Fields) -> int:
    """`by: 60s`, or `by: -60s` to set the clock back."""

    def read(node: Node, path: str) -> int:
        sign = -1 if isinstance(node, Scalar) and node.text.startswith("-") else 1
        if sign < 0:
            assert isinstance(node, Scalar)
            node = Scalar(node.place, node.text.removeprefix("-"), node.quoted)
        return sign * scope.reader.time(node, path, "`by`", 1)

    return fields.read("by", read, 1)


def read_bump_clock(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> BumpClock:
    fields = scope.reader.fields(node, path, "`bump_clock`", ("brokers", "by"), ("brokers", "by"))
    return BumpClock(_brokers(scope, fields, "brokers"), _jump_us(scope, fields))


def read_strobe_clock(scope: Scope, node: Node, path: str, workloads: dict[str, Workload]) -> StrobeClock:
    known = ("brokers", "by", "period")
    fields = scope.reader.fields(node, path, "`strobe_clock`", known, known)
    brokers = _brokers(scope, fields, "brokers")
    return StrobeClock(brokers, _jump_us(scope, fields), fields.time("period", 1_000_000, STROBE_PERIOD_MIN_US))
