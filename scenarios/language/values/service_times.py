"""How long a disk takes, as a broker's `disk` and the verb `slow_disk` say it."""

from __future__ import annotations

from replica.log.files.disk_speed import ServiceTime
from scenarios.language.values.reading import Fields
from scenarios.language.values.trees import Tree, bandwidth_text, given, time_text

SERVICE_TIME_KEYS = ("append", "read", "throughput")


def read_service_time(fields: Fields) -> ServiceTime:
    """`append: 2s`, `read: 2s`, `throughput: 50kB/s`; at least one of them."""
    if fields.node is not None and not any(key in fields for key in SERVICE_TIME_KEYS):
        fields.reader.error(
            "E105", f"{fields.what} slows nothing", fields.place, label="add `append: 2s`", path=fields.path
        )
    return ServiceTime(fields.time("append", 0, 1), fields.time("read", 0, 1), fields.bandwidth("throughput", None))


def service_time_tree(time: ServiceTime) -> Tree:
    return given(
        {
            "append": time_text(time.append_us) if time.append_us else None,
            "read": time_text(time.read_us) if time.read_us else None,
            "throughput": None if time.bytes_per_second is None else bandwidth_text(time.bytes_per_second),
        }
    )


def service_time_text(time: ServiceTime) -> str:
    """`2s per append, 50,000 B/s`"""
    parts = [f"{time_text(us)} per {what}" for us, what in ((time.append_us, "append"), (time.read_us, "read")) if us]
    return ", ".join(parts + ([f"{time.bytes_per_second:,} B/s"] if time.bytes_per_second is not None else []))
