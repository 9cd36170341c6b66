"""What the simulator does for one record, and for one fetch that finds none: counted, so alike on every machine.

Two runs that differ in length only are played under Python's profiler. What the longer one does more, divided by the
records (or fetches) it has more, is the price of one, without a run's start and end.
"""

from __future__ import annotations

import cProfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from scenarios.bench.steady import steady
from scenarios.language.spec import Scenario
from scenarios.run.runner import ScenarioRun
from scenarios.run.worlds import simulated

SHORT_S, LONG_S = 2, 4
_OURS = Path(__file__).resolve().parents[2]

_SOCKETS = "calls of sockets"
_OBJECTS, _NAMED_TUPLES, OWN_CALLS, _IN_C = (
    "objects of declared classes",
    "of them named tuples",
    "calls of own functions",
    "calls of functions in C by own functions",
)
_WITHIN_A_PERCENT = (_OBJECTS, _NAMED_TUPLES, OWN_CALLS, _IN_C, _SOCKETS)
"""Python's collector has its own moments: a few more or fewer calls follow. How much a socket takes and gives at once
is the kernel's: one call more in a run of thousands, seen under load."""

# What is counted, and by the calls of which functions: our own by module and name, those in C by name alone.
_CALLS: dict[str, tuple[str, ...]] = {
    "frames delivered": ("cluster/network/passage.py Passage._arrive",),
    _SOCKETS: ("send", "recv", "recv_into", "sendfile"),
    "calls of files": ("pread", "pwrite"),
    "frames encoded": (
        "cluster/protocol/versions.py request_frame",
        "cluster/protocol/versions.py response_frame",
        "cluster/protocol/fetch_response_codec.py fetch_response_segments",
    ),
    "frames decoded": (
        "cluster/protocol/versions.py read_request_header",
        "cluster/protocol/versions.py response_body_position",
    ),
    "batch headers decoded": ("replica/log/batches/records.py read_header",),
    "batches decoded into records": ("replica/log/batches/records.py read_records",),
    "CRCs checked": ("replica/log/batches/records.py check_crc",),
}
RECORDS, _FETCHES = "records", "fetches"
_FETCH_HANDLER = "cluster/broker/apis/fetch.py FetchHandler.__call__"


class Price(NamedTuple):
    """What one record costs, or one fetch without records. counts: by what is counted, for one of `what`"""

    what: str
    counts: Mapping[str, float]


def is_exact(name: str) -> bool:
    """The same in each run; others may differ by a hundredth."""
    return name not in _WITHIN_A_PERCENT


def count_prices() -> list[Price]:
    play_counted(
        steady(2, 100)
    )  # What is loaded or remembered by the first run of a process is none of the others' business.
    return [_price("record", 100, RECORDS), _price("fetch without records", 0, _FETCHES)]


def _price(what: str, rate: int, unit: str) -> Price:
    short, long = play_counted(steady(SHORT_S, rate)), play_counted(steady(LONG_S, rate))
    more = long[unit] - short[unit]
    counted = [name for name in long if name not in (RECORDS, _FETCHES)]
    return Price(what, {name: round((long[name] - short[name]) / more, 2) for name in counted})


def play_counted(scenario: Scenario) -> dict[str, int]:
    """Totals of one run: records and fetches, and all that is counted, by name."""
    profiler = cProfile.Profile()
    with TemporaryDirectory(prefix="highwater-") as folder:
        run = ScenarioRun(scenario, simulated, Path(folder))
        profiler.enable()
        run.execute()
        profiler.disable()
    calls, objects, named_tuples, own, in_c = Counter[str](), 0, 0, 0, 0
    for entry in profiler.getstats():
        code = entry.code
        if isinstance(code, str):
            continue  # Counted with those who call them: trio's own calls depend on how busy the machine is.
        if code.co_filename.startswith("<"):  # The constructors of dataclasses and named tuples are generated.
            objects += entry.callcount
            named_tuples += entry.callcount if code.co_name == "<lambda>" else 0
        elif Path(code.co_filename).is_relative_to(_OURS):
            own += entry.callcount
            calls[f"{Path(code.co_filename).relative_to(_OURS)} {code.co_qualname}"] += entry.callcount
            # `<method 'send' of '_socket.socket' objects>`, `<built-in method posix.pwrite>`
            for called in entry.calls or ():
                if isinstance(called.code, str):
                    in_c += called.callcount
                    calls[_name_in_c(called.code)] += called.callcount
    sent = [machine.host.bytes for machine in run.cluster.machines.values()]
    return {
        RECORDS: sum(entry.acked for entry in run.ledger),
        _FETCHES: calls[_FETCH_HANDLER],
        "events of the trace": run.trace.next_seq,
        "deliveries and timers": run.cluster.time.events,
        **{name: sum(calls[function] for function in functions) for name, functions in _CALLS.items()},
        "bytes sent by the codec": sum(node.protocol for node in sent),
        "bytes sent by sendfile": sum(node.sendfile for node in sent),
        _OBJECTS: objects,
        _NAMED_TUPLES: named_tuples,
        OWN_CALLS: own,
        _IN_C: in_c,
    }


def _name_in_c(described: str) -> str:
    return described.split("'")[1] if "'" in described else described.strip("<>").rpartition(".")[2]
