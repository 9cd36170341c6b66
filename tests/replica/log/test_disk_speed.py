"""A slow disk serves one operation after the other; a fast one causes no waiting."""

from replica.log.files.disk import DiskSpeed, ServiceTime

MS = 1000


def test_a_disk_without_service_times_takes_none():
    speed = DiskSpeed()
    assert speed.append_ends_us(1 << 20, 5) == 5
    assert speed.read_ends_us(1 << 20, 5) == 5


def test_operations_queue_and_an_idle_disk_begins_at_once():
    speed = DiskSpeed()
    speed.in_force["f"] = ServiceTime(append_us=10 * MS)
    assert [speed.append_ends_us(1, 0), speed.append_ends_us(1, 3 * MS)] == [10 * MS, 20 * MS]
    assert speed.append_ends_us(1, 50 * MS) == 60 * MS


def test_latency_and_transfer_add_up_and_so_do_faults():
    speed = DiskSpeed()
    speed.in_force["disk"] = ServiceTime(append_us=1 * MS, bytes_per_second=1_000_000)
    speed.in_force["fault"] = ServiceTime(append_us=2 * MS)
    assert speed.append_ends_us(5_000, 0) == 8 * MS


def test_the_page_cache_answers_reads_past_the_queue_unless_reads_are_slow_themselves():
    speed = DiskSpeed()
    speed.in_force["f"] = ServiceTime(append_us=10 * MS, bytes_per_second=1)
    speed.append_ends_us(1, 0)
    assert speed.read_ends_us(1 << 20, 1) == 1
    speed.in_force["g"] = ServiceTime(read_us=5 * MS)
    assert speed.read_ends_us(1, 1) == 10 * MS + 1_000_000 + 5 * MS
