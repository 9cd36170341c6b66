"""Kafka clusters that break on demand, in your own tests and notebooks.

    import highwater

    with highwater.cluster(topics={"orders": 3}) as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "1"})
        ...
        kafka.fault("kill leader(orders-0)")
        kafka.fail("Produce", errors=["NOT_LEADER_OR_FOLLOWER"] * 3)
        kafka.wait_until("leader(orders-0) != b1")
    assert not kafka.verdict.lost, kafka.verdict.explain(kafka.verdict.lost[0])

    run = highwater.run("acks1-leader-kill", variant="acks-all")
    assert run.verdict.ok

Each cluster and each run is a separate process: the `highwater` command, started with the same Python interpreter. This
module imports only the standard library. It works with asyncio, threads and pytest-xdist, and does not clash with your
own packages named `cluster`, `scenarios` or `tests`. A cluster stops when the process that started it ends, even if
that process is killed.

For pytest, this module provides the fixtures `kafka_cluster` and `kafka`, and collects `*.highwater.yaml` files as
tests.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import time
import types
import warnings
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

__all__ = ["Cluster", "Comparison", "HighwaterError", "Run", "Verdict", "cluster", "compare", "run", "tables"]

_HOME = Path(__file__).resolve().parent
"""The directory with the packages of the `highwater` command: a checkout, or site-packages."""
_POLL_S = 0.02
_STARTS_WITHIN_S = 60.0
_STOPS_WITHIN_S = 120.0
_ANSWERS_WITHIN_S = 30.0
_HELD, _EXPECTATION_FAILED, _OUR_BUG = 0, 1, 4
"""Exit codes of the command: all expectations held, an expectation failed, Highwater has a bug."""
_STATE_FILE = ".serving.json"
_LOCK_FILE = "scenario.lock.yaml"

Settings = Mapping[str, Any]
Topics = Mapping[str, int | tuple[int, int]]
"""Topic names, each with its number of partitions or with (partitions, replication factor)."""


class HighwaterError(Exception):
    """A command failed, a cluster refused a request, or an argument is not valid.

    The text is the error message of the command or the cluster.
    """


def __tracebackhide__(caught: Any) -> bool:  # noqa: N807  # pytest asks the module of each frame for this name.
    """Return True for a HighwaterError: pytest then ends its traceback in the user's test, not in this module."""
    return isinstance(caught.value, HighwaterError)


# ------------------------------------------------------------------------------------------------------------ commands


def _command(*words: str) -> list[str]:
    """Return a `highwater` command line for this Python. -P keeps the current directory off its import path."""
    return [sys.executable, "-P", "-m", "scenarios.cli", *words]


def _environment() -> dict[str, str]:
    """Return the environment variables of a command, without the caller's PYTHONPATH.

    If Highwater is not installed, PYTHONPATH is the directory of this module.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    installed = {os.path.realpath(folder) for folder in (*site.getsitepackages(), site.getusersitepackages())}
    ours = {} if str(_HOME) in installed else {"PYTHONPATH": str(_HOME)}
    return {**kept, "PYTHONSAFEPATH": "1", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "COLUMNS": "100", **ours}


def _call(*words: str, timeout: float, codes: Sequence[int] = (_HELD,)) -> str:
    """Run a command and return its standard output.

    Args:
        timeout: seconds after which the command is killed.
        codes: exit codes that are results and not errors.

    Raises:
        HighwaterError: if the command ends with another exit code, or is killed.
    """
    shown = shlex.join(["highwater", *words])
    try:
        done = subprocess.run(
            _command(*words),
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HighwaterError(f"`{shown}` took longer than {timeout:g} s") from None
    if done.returncode not in codes:
        said = (done.stderr or done.stdout).strip()
        raise HighwaterError(f"{said}\n(`{shown}` ended with exit code {done.returncode})")
    return done.stdout


def _options(**text: object) -> list[str]:
    """Return keyword arguments as command-line options, without those that are None or False."""
    words: list[str] = []
    for name, value in text.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value not in (None, False):
            words += [option, str(value)]
    return words


def _set_options(settings: Settings | None, prefix: str = "") -> list[str]:
    pairs = (f"{prefix}{path}={_as_text(value)}" for path, value in (settings or {}).items())
    return [word for pair in pairs for word in ("--set", pair)]


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Folder:
    """A temporary folder, removed with this object or when Python exits, unless `keep` was called."""

    def __init__(self, parent: str | os.PathLike[str] | None) -> None:
        if parent is not None:
            Path(parent).mkdir(parents=True, exist_ok=True)
        self.path = Path(tempfile.mkdtemp(prefix="highwater-", dir=parent)).resolve()
        self.is_kept = False
        self._removal = weakref.finalize(self, _remove, self.path, os.getpid())

    def keep(self) -> None:
        self.is_kept = True
        self._removal.detach()

    def remove(self) -> None:
        self._removal()


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # Do nothing in a fork of the owner.
        shutil.rmtree(path, ignore_errors=True)


# ------------------------------------------------------------------------------------------------------------- verdict


class Verdict:
    """The verdict on a run: the outcome of every record, and the anomalies.

    `str()` returns the verdict as the `highwater` command prints it.
    """

    def __init__(self, summary: Mapping[str, Any], text: str, run_dir: Path, folder: _Folder | None) -> None:
        self.summary: Mapping[str, Any] = summary
        """The parsed summary.json of the run's folder."""
        self.run_dir = run_dir
        """The path of the run's folder, which is removed with this object unless it is kept."""
        self._text = text
        self._folder = folder

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<Verdict {', '.join(self.kinds) or 'ok'}>"

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of anomalies in this run, such as `lost`; empty if there are none."""
        return list(self.summary["verdict"])

    @property
    def ok(self) -> bool:
        """Return True if there is no anomaly."""
        return not self.kinds and not self.summary["our_bug"]

    @property
    def records(self) -> Mapping[str, list[str]]:
        """Return lists of record names by outcome: acked, failed, unknown, lost, missing, duplicated and others.

        A record may have several outcomes: a lost record is acked, too. The record of a live client is named by its
        value or key if that is a short text, otherwise by the client and a number, such as `rdkafka-7`.
        """
        return {outcome: names for outcome, names in self.summary["records"].items() if isinstance(names, list)}

    @property
    def lost(self) -> list[str]:
        """Return the names of records that were acked and are not in the final log."""
        return list(self.records["lost"])

    @property
    def duplicated(self) -> list[str]:
        """Return the names of records that are in the final log more than once."""
        return list(self.records["duplicated"])

    @property
    def anomalies(self) -> list[Mapping[str, Any]]:
        """Return all anomalies: dicts with `kind`, `partition`, `records` (names), `sentence` and other keys."""
        return list(self.summary["anomalies"])

    def explain(self, record: str | None = None, *, timeout: float = 60.0) -> str:
        """Return a text that explains a record's outcome by its chain of causes.

        Args:
            record: name of the record; by default the first lost record.
            timeout: seconds until the explanation must be complete.

        Raises:
            HighwaterError: if the run has no such record, or `record` is None and no record was lost.
        """
        words = ("explain", str(self.run_dir), *([record] if record is not None else []))
        return _call(*words, timeout=timeout)

    def keep(self) -> Path:
        """Keep the run's folder after this object is deleted, and return its path."""
        if self._folder is not None:
            self._folder.keep()
        return self.run_dir


def _summary(run_dir: Path) -> Mapping[str, Any]:
    summary: Mapping[str, Any] = json.loads((run_dir / "summary.json").read_text(encoding="utf-8"))
    return summary


# ------------------------------------------------------------------------------------------------------------- cluster


def cluster(
    *,
    brokers: int | None = None,
    topics: Topics | None = None,
    era: str | None = None,
    config: Settings | None = None,
    scenario: str | os.PathLike[str] | None = None,
    set: Settings | None = None,
    processes: bool = False,
    keep: bool | None = None,
    record: str | os.PathLike[str] | None = None,
    timeout: float = _STARTS_WITHIN_S,
) -> Cluster:
    """Return a cluster of live brokers that is not started yet.

    Use it in a `with` or `async with` statement, or call `start` and `stop`.

    Args:
        brokers: number of brokers; three by default.
        topics: topics to create, each with its number of partitions or with (partitions, replication factor);
            {"orders": 3} by default.
        era: Kafka release whose rules apply, such as `kafka-2.0`; the newest by default.
        config: Kafka's own broker settings, such as {"min.insync.replicas": 2}.
        scenario: scenario file that describes the cluster in place of brokers, topics and era; its timeline is played.
        set: other values of the cluster or the scenario by path, as for `highwater serve --set`.
        processes: run each broker in a separate process, which a kill ends by SIGKILL.
        keep: True to keep the run's folder, False to remove it with the verdict. By default it is kept only if the
            `with` block raised an exception or the verdict has an anomaly.
        record: directory for the run's folder; by default the system's directory for temporary files.
        timeout: seconds until all brokers must be up.

    Raises:
        HighwaterError: if topics or config is not a mapping. Other invalid values are reported by `start`.
    """
    for name, value, example in (("topics", topics, '{"orders": 3}'), ("config", config, '{"min.insync.replicas": 2}')):
        if not isinstance(value, Mapping | None):
            raise HighwaterError(f"{name} must be a mapping, such as {example}, not {value!r}")
    words = _options(brokers=brokers, profile=era, scenario=scenario, processes=processes)
    for name, size in (topics or {}).items():
        words += ["--topic", ":".join(map(str, (name, *(size if isinstance(size, tuple) else [size]))))]
    words += [*_set_options(config, "cluster.config."), *_set_options(set)]
    return Cluster(words, keep=keep, record=record, timeout=timeout)


class _Breakable:
    """Base class of objects that accept faults: a cluster, or one test's view of a shared cluster."""

    def fault(self, step: str | Mapping[str, Any], *, timeout: float = _ANSWERS_WITHIN_S) -> str:
        """Cause or end a fault, and return a sentence that says what was done.

        Args:
            step: arguments of `highwater fault` as text, such as "kill leader(orders-0)", "pause b2 --for 3s" or
                "end cut-1"; or a step of the scenario language, such as
                {"cut": {"between": ["b1", "b2"]}, "for": "3s"}.
            timeout: seconds to wait for the cluster's answer.

        Raises:
            HighwaterError: if the step is not valid, or not possible at this moment.
        """
        raise NotImplementedError

    def fail(
        self,
        api: str,
        errors: str | Sequence[str] = (),
        *,
        lasting: str | None = None,
        timeout: float = _ANSWERS_WITHIN_S,
        **how: object,
    ) -> str:
        """Make the next requests of an API fail or wait, and return a sentence that says what was done.

        `kafka.fail("Produce", errors=["NOT_LEADER_OR_FOLLOWER"] * 3, when="after")` appends the next three batches, but
        answers each of them with an error.

        Args:
            api: Kafka's name of the API, such as "Produce".
            errors: Kafka's name of an error, or a list with one name for each of the next requests.
            lasting: duration after which the fault ends, such as "10s".
            timeout: seconds to wait for the cluster's answer.
            how: other keys of `fail` in the scenario language: broker, partitions, times, when, delay, throttle, close.

        Raises:
            HighwaterError: if a name is unknown, or the keys cannot be combined.
        """
        names = [errors] if isinstance(errors, str) else list(errors)
        step: dict[str, object] = {"fail": {"api": api, **({"errors": names} if names else {}), **how}}
        if lasting is not None:
            step["for"] = lasting
        return self.fault(step, timeout=timeout)


class Cluster(_Breakable):
    """A cluster of live brokers in a separate process; call `highwater.cluster` to make one.

    In a `with` or `async with` statement it is started at the beginning and stopped at the end.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        keep: bool | None = None,
        record: str | os.PathLike[str] | None = None,
        timeout: float = _STARTS_WITHIN_S,
    ) -> None:
        """Prepare a cluster without starting it.

        Args:
            words: command-line options of `highwater serve`.
            keep: see `highwater.cluster`.
            record: see `highwater.cluster`.
            timeout: seconds until all brokers must be up.
        """
        self.bootstrap_servers = ""
        """The brokers' addresses for clients, separated by commas; empty before the start."""
        self.faults: list[str] = []
        """The sentences that `fault` has returned so far."""
        self._words = list(words)
        self._keep = keep
        self._record = record
        self._starts_within_s = timeout
        self._folder: _Folder
        self._run_name = "serve"
        self._process: subprocess.Popen[bytes] | None = None
        self._kill: weakref.finalize[Any, Any] | None = None
        self._verdict: Verdict | None = None

    def start(self) -> Cluster:
        """Start the brokers, wait until they accept connections, and return this cluster.

        Raises:
            HighwaterError: if the brokers did not start, or were started before.
        """
        if self._process is not None:
            raise HighwaterError("a cluster can be started only once: create a new cluster")
        self._folder = folder = _Folder(self._record)
        words = ["serve", "--port", "0", "--record", str(folder.path), "--parent", str(os.getpid()), *self._words]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            # With start_new_session, Ctrl-C in a terminal interrupts only this process, which then stops the cluster.
            self._process = subprocess.Popen(
                _command(*words),
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self._kill = weakref.finalize(self, _kill, self._process, os.getpid(), folder.path / _STATE_FILE)
        deadline = time.monotonic() + self._starts_within_s
        while (ready := re.search(r"^ *bootstrap\.servers=(\S+)\n", self.output, re.MULTILINE)) is None:
            if self._process.poll() is not None:
                raise HighwaterError(f"{self.log.strip() or self.output.strip()}\n(the cluster did not start)")
            if time.monotonic() > deadline:
                self._kill()
                folder.keep()
                raise HighwaterError(
                    f"the brokers did not start within {self._starts_within_s:g} s; see {folder.path}\n{self.log}"
                )
            time.sleep(_POLL_S)
        self.bootstrap_servers = ready[1]
        with contextlib.suppress(HighwaterError, OSError):  # The name is not necessary.
            lock = Path(self._serving()["trace"]).with_name(_LOCK_FILE).read_text(encoding="utf-8")
            self._run_name = re.findall(r"^id: (\S+)$", lock, re.MULTILINE)[0]
        return self

    @property
    def _out(self) -> Path:
        return self._folder.path / "serve.out"

    @property
    def _err(self) -> Path:
        return self._folder.path / "serve.err"

    @property
    def output(self) -> str:
        """Return the standard output of the process so far: first the addresses, at the end the verdict."""
        return self._out.read_text(encoding="utf-8", errors="replace")

    @property
    def log(self) -> str:
        """Return the events so far, one per line: faults, elections, ISR changes and errors."""
        return self._err.read_text(encoding="utf-8", errors="replace")

    @property
    def run_dir(self) -> Path:
        """Return the path of the run's folder. It is complete only after the cluster has stopped."""
        return self._folder.path / f"0001-{self._run_name}"  # A cluster is the first run in its folder.

    # ------------------------------------------------------------------------------------------------------ control

    def _ask(self, request: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """Send a request to the control socket and return the answer. Raises HighwaterError if it failed."""
        if self._process is None or self._process.poll() is not None:
            raise HighwaterError(f"the cluster is not running\n{self.log if self._process else ''}".rstrip())
        index = self._serving()["socket"]
        chunks = []
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(timeout)
                sock.connect(index)
                sock.sendall(json.dumps(request).encode())
                sock.shutdown(socket.SHUT_WR)
                while chunk := sock.recv(1 << 16):
                    chunks.append(chunk)
        except TimeoutError:
            raise HighwaterError(f"the cluster did not answer within {timeout:g} s") from None
        except OSError as error:
            raise HighwaterError(f"cannot connect to the cluster, which may have ended ({error})\n{self.log}") from None
        answer: Mapping[str, Any] = json.loads(b"".join(chunks) or b"{}")
        if not answer.get("ok"):
            fix = f"\n  = fix: {answer['fix']}" if "fix" in answer else ""
            raise HighwaterError(f"{answer.get('error', 'the cluster sent no answer')}{fix}")
        return answer

    def _serving(self) -> Mapping[str, str]:
        """Return the process's state file: paths of its socket and trace. Raises HighwaterError if there is none."""
        try:
            serving: Mapping[str, str] = json.loads((self._folder.path / _STATE_FILE).read_bytes())
        except OSError:
            raise HighwaterError(f"the cluster has no control socket; its output:\n{self.output.strip()}") from None
        return serving

    def fault(self, step: str | Mapping[str, Any], *, timeout: float = _ANSWERS_WITHIN_S) -> str:
        answer = self._ask(_fault_request(step), timeout)
        for warning in answer.get("warnings", ()):
            warnings.warn(warning, stacklevel=2)
        said = str(answer["what"])
        self.faults.append(said)
        return said

    def heal(self, *, timeout: float = _ANSWERS_WITHIN_S) -> None:
        """End all faults and wait until no broker is fenced.

        Stopped nodes are started, paused nodes are resumed, and the network and the disks are restored.

        Raises:
            HighwaterError: if a broker is still fenced after `timeout` seconds.
        """
        for fault in self.state["faults"]:
            with contextlib.suppress(HighwaterError):  # Another step may have ended the fault.
                self._ask({"end": fault["fault"]}, timeout)
        for node in self.state["nodes"]:
            if node["role"] != "client" and node["state"] != "running":
                verb = "start" if node["state"] == "down" else "resume"
                self._ask(_fault_request(f"{verb} {node['node']}"), timeout)
        deadline = time.monotonic() + timeout
        while any(node["fenced"] for node in self.state["nodes"]):
            if time.monotonic() > deadline:
                raise HighwaterError(f"brokers were still fenced after {timeout:g} s")
            time.sleep(_POLL_S)

    def wait_until(self, condition: str | Mapping[str, Any], *, timeout: float = _ANSWERS_WITHIN_S) -> None:
        """Wait until a condition is true. A coroutine should call this with `asyncio.to_thread`.

        Args:
            condition: a comparison of leader, isr, elr, epoch, hw or leo, such as "leader(orders-0) != b1",
                "isr(orders-0) == 3" (the number of members), "isr(orders-0) == {b1, b2}" or "hw(orders-0) >= 10"; or a
                mapping like a scenario's `when`, such as {"b1": {"running": True}, "orders-0": {"leader": "b2"}}.
            timeout: seconds until the condition must be true.

        Raises:
            HighwaterError: if the condition is not valid, or is still false at the timeout.
        """
        text = condition if isinstance(condition, str) else json.dumps(condition)
        deadline = time.monotonic() + timeout
        while not (answer := self._ask({"condition": text}, _ANSWERS_WITHIN_S))["holds"]:
            if time.monotonic() > deadline:
                raise HighwaterError(f"`{text}` was still false after {timeout:g} s: {answer['found']}\n{self.log}")
            time.sleep(_POLL_S)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        *,
        timeout: float = _ANSWERS_WITHIN_S,
    ) -> str:
        """Create a topic, wait until it has leaders, and return its name.

        Args:
            replication_factor: replicas of each partition; by default three, or fewer if there are fewer brokers.
        """
        factor = "" if replication_factor is None else f":{replication_factor}"
        self._ask({"topic": f"{name}:{partitions}{factor}"}, timeout)
        for partition in range(partitions):
            self.wait_until(f"leader({name}-{partition}) != none", timeout=timeout)
        return name

    @property
    def state(self) -> Mapping[str, Any]:
        """Return nodes, partitions and faults in force, as `highwater fault list --format json` prints them."""
        state: Mapping[str, Any] = self._ask({"list": True}, _ANSWERS_WITHIN_S)["state"]
        return state

    # ---------------------------------------------------------------------------------------------------------- end

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on the stopped cluster. Raises HighwaterError if the cluster has not stopped."""
        if self._verdict is None:
            raise HighwaterError("there is no verdict until the cluster has stopped: leave the `with` block first")
        return self._verdict

    def stop(self, *, timeout: float = _STOPS_WITHIN_S) -> Verdict:
        """Stop the brokers, check the outcome of every record and return the verdict.

        Raises:
            HighwaterError: if the process died, or did not finish within `timeout` seconds. Its files are kept.
        """
        if self._verdict is not None:
            return self._verdict
        if self._process is None or self._kill is None:
            raise HighwaterError("the cluster was not started")
        before = len(self.output)
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._folder.keep()
            raise HighwaterError(f"the cluster did not stop within {timeout:g} s; see {self._folder.path}") from None
        finally:
            self._kill()
        if code not in (_HELD, _EXPECTATION_FAILED, _OUR_BUG) or not (self.run_dir / "summary.json").is_file():
            self._folder.keep()
            ended = f"the cluster ended with exit code {code}; see {self._folder.path}"
            raise HighwaterError(f"{said}\n({ended})" if (said := self.log.strip()) else ended)
        _, _, screen = self.output[before:].partition("judging the run (")
        text = screen.partition("\n")[2].lstrip("\n")
        self._verdict = Verdict(_summary(self.run_dir), text, self.run_dir, self._folder)
        if self._keep or (self._keep is None and not self._verdict.ok):
            self._folder.keep()
        return self._verdict

    def kill(self) -> None:
        """End the process immediately, without a verdict."""
        if self._kill is not None:
            self._kill()

    def keep(self) -> Path:
        """Keep the run's folder even if there is no anomaly, and return its path."""
        self._keep = True
        self._folder.keep()
        return self.run_dir

    @property
    def is_kept(self) -> bool:
        """Return True if the run's folder will be kept."""
        return self._folder.is_kept

    def remove(self) -> None:
        """Remove the run's folder now, unless it is kept."""
        self._folder.remove()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
            return
        if self._keep is None:
            self.keep()
        with contextlib.suppress(HighwaterError):  # The exception of the block is more important.
            self.stop()
        if self._keep:
            error.add_note(
                f"highwater: the run is kept; view it: highwater view {shlex.quote(str(self.run_dir))} --open"
            )

    async def __aenter__(self) -> Cluster:
        import asyncio

        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.__exit__, kind, error, trace)


def _kill(process: subprocess.Popen[bytes], owner: int, state_file: Path) -> None:
    """Kill a cluster's process and remove its socket. Do nothing in a fork of the process that started it."""
    if os.getpid() != owner or process.poll() is not None:
        return
    process.kill()
    process.wait()
    with contextlib.suppress(OSError, ValueError):  # The process may have been killed before it had a socket.
        path = Path(json.loads(state_file.read_bytes())["socket"])
        for file in (path, path.with_suffix(".json")):
            file.unlink(missing_ok=True)


def _fault_request(step: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the request that `highwater fault` would send to the control socket for a step.

    Raises HighwaterError if the text cannot be split into arguments.
    """
    if not isinstance(step, str):
        return {"yaml": json.dumps(step)}
    try:
        words = shlex.split(step)
    except ValueError as error:
        raise HighwaterError(f"`{step}` cannot be split into arguments: {error}") from None
    options: dict[str, str | None] = {"--for": None, "--as": None}
    for option in options:
        if option in words[:-1]:
            index = words.index(option)
            options[option] = words[index + 1]
            del words[index : index + 2]
    if len(words) == 2 and words[0] == "end":
        return {"end": words[1]}
    return {"words": words, "for": options["--for"], "as": options["--as"]}


# ---------------------------------------------------------------------------------------------------------------- runs


class Run(Verdict):
    """A finished run of a scenario in virtual time, with its verdict."""

    @property
    def held(self) -> bool:
        """Return True if all expectations of the scenario were met."""
        return bool(self.summary["held"])

    @property
    def verdict(self) -> Verdict:
        """Return the run itself, so that runs and clusters both have a `verdict`."""
        return self

    def __repr__(self) -> str:
        return f"<Run of {self.summary['scenario']}: {', '.join(self.kinds) or 'ok'}>"

    def table(self, name: str) -> Any:
        """Return trace events as a PyArrow table.

        Args:
            name: kind of event, such as `isr_committed`: the table has the columns that such events use. Or a table of
                the trace, such as `control`: all of its events and columns.

        Raises:
            HighwaterError: if the run has no table or event of this name.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        families = sorted(path.name for path in (self.run_dir / "trace").iterdir() if path.is_dir())
        events: dict[str, None] = {}
        for family in families:
            parts = sorted((self.run_dir / "trace" / family).glob("*.parquet"))
            read = pa.concat_tables(pq.ParquetFile(part).read() for part in parts)
            if family == name:
                return read
            column = read.column("event").cast(pa.string())
            found = read.filter(pc.equal(column, name))
            if found.num_rows:
                return found.select(
                    [
                        column_name
                        for column_name in found.column_names
                        if found.column(column_name).null_count < len(found)
                    ]
                )
            events |= dict.fromkeys(column.unique().to_pylist())
        known = ", ".join([*families, *sorted(events)])
        raise HighwaterError(f"this run has no table or event `{name}`; choose one of {known}")

    def view(self, *, timeout: float = 60.0) -> Any:
        """Render a page that plays back the run. Return an HTML object in a notebook, elsewhere the page's path."""
        page = Path(_call("view", str(self.run_dir), timeout=timeout).strip())
        return _shown(page)

    def report(self, spark: Any) -> Mapping[str, Any]:
        """Return the result tables of this run as DataFrames of a Spark session; see `tables`."""
        return tables(spark, [self.run_dir])


def run(
    scenario: str | os.PathLike[str],
    *,
    variant: str | None = None,
    seed: int | None = None,
    set: Settings | None = None,
    keep: bool = False,
    record: str | os.PathLike[str] | None = None,
    timeout: float = 300.0,
) -> Run:
    """Run a bundled scenario or a scenario file in virtual time, and return the finished run.

    A failed expectation is not an error; see `Run.held`.

    Args:
        scenario: id of a bundled scenario, or path of a file.
        variant: id of one of the scenario's variants; by default the scenario itself.
        seed: random seed to use in place of the scenario's.
        set: values to change in the scenario by path, such as {"workloads.p1.config.acks": "1"}.
        keep: True to keep the run's folder after the returned object is deleted.
        record: directory for the run's folder; by default the system's directory for temporary files.
        timeout: seconds after which the run is killed.

    Raises:
        HighwaterError: if the scenario is not valid or could not be run.
    """
    folder = _Folder(record)
    words = [os.fspath(scenario), *_options(variant=variant, seed=seed, out=folder.path), *_set_options(set)]
    text = _call("run", *words, timeout=timeout, codes=(_HELD, _EXPECTATION_FAILED, _OUR_BUG))
    last = folder.path / "last"
    if not last.is_file():
        raise HighwaterError(f"the run left no folder; its output:\n{text}")
    run_dir = folder.path / last.read_text(encoding="utf-8").strip()
    if keep:
        folder.keep()
    return Run(_summary(run_dir), text.strip("\n"), run_dir, folder)


class Comparison:
    """The runs of a scenario and its variants. `str()` returns the table that `highwater compare` prints."""

    def __init__(self, words: Sequence[str], timeout: float) -> None:
        self._words, self._timeout = list(words), timeout
        self._folder: _Folder | None = None
        document = json.loads(self._compare("--format", "json", "--records"))
        self.runs: list[Mapping[str, Any]] = document["runs"]
        """The summary of each run, with the content of `Verdict.summary`."""

    def _compare(self, *options: str) -> str:
        codes = (_HELD, _EXPECTATION_FAILED)
        return _call("compare", *self._words, *options, timeout=self._timeout, codes=codes)

    def __getitem__(self, variant: str) -> Mapping[str, Any]:
        """Return the summary of a variant's run; `base` is the scenario without a variant."""
        return {summary["variant"] or "base": summary for summary in self.runs}[variant]

    def __str__(self) -> str:
        return self._compare().strip("\n")

    def view(self) -> Any:
        """Render a page with the runs side by side. Return an HTML object in a notebook, elsewhere the page's path.

        The page is removed with this object.
        """
        self._folder = self._folder or _Folder(None)
        page = self._folder.path / "compare.html"
        self._compare("--page", str(page))
        return _shown(page)


def compare(
    scenario: str | os.PathLike[str],
    *,
    variants: Sequence[str] = (),
    seed: int | None = None,
    set: Settings | None = None,
    timeout: float = 300.0,
) -> Comparison:
    """Run a scenario and its variants with the same seed, and return the runs for comparison.

    Args:
        scenario: id of a bundled scenario, or path of a file.
        variants: ids of the variants to run; `base` is the scenario without a variant. By default all are run.
        seed: random seed to use in place of the scenario's.
        set: values to change in the scenario by path, as for `run`.
        timeout: seconds after which the command is killed.

    Raises:
        HighwaterError: if the scenario is not valid or could not be run.
    """
    chosen = [word for variant in variants for word in ("--variant", variant)]
    return Comparison([os.fspath(scenario), *chosen, *_options(seed=seed), *_set_options(set)], timeout)


def _shown(page: Path) -> Any:
    """Return an object that a notebook displays as the page. Outside of a notebook, return the path of the page."""
    if "IPython" not in sys.modules or sys.modules["IPython"].get_ipython() is None:
        return page
    import html

    from IPython.display import HTML  # type: ignore[import-not-found,unused-ignore]

    text = html.escape(page.read_text(encoding="utf-8"))
    return HTML(f'<iframe srcdoc="{text}" width="100%" height="720" frameborder="0"></iframe>')


def tables(spark: Any, run_dirs: Sequence[str | os.PathLike[str]]) -> Mapping[str, Any]:
    """Return the result tables of runs by name, as DataFrames of your Spark session; see spark_reports/TABLES.md.

    Args:
        spark: the Spark session.
        run_dirs: folders of runs. Each table has the rows of all of them.

    Raises:
        HighwaterError: if this process has already imported another package named `replica` or `spark_reports`.
    """
    _import_ours("replica", "spark_reports")
    from spark_reports.io import read_trace
    from spark_reports.tables import ResultTables

    return ResultTables(read_trace(spark, [Path(run_dir) for run_dir in run_dirs]))


def _import_ours(*names: str) -> None:
    """Import these packages of Highwater, even if the import path has other packages of the same names.

    Raises:
        HighwaterError: if the process has already imported other packages of these names.
    """
    for name in names:
        file = str(_HOME / name / "__init__.py")
        known = sys.modules.get(name)
        if known is not None:
            if os.path.realpath(known.__file__ or "") != file:
                raise HighwaterError(f"this process has imported another package named `{name}`, from {known.__file__}")
            continue
        spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=[str(_HOME / name)])
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


# -------------------------------------------------------------------------------------------------------------- pytest
#
# The plugin provides fixtures and collects scenario files. pytest imports this module in every session where
# Highwater is installed, so this code imports nothing before a test needs it.

_ARGUMENTS = ("brokers", "topics", "era", "config", "scenario", "set", "processes", "fail_on")
_MARKER = (
    f"highwater({', '.join(_ARGUMENTS)}): configure the cluster of `kafka_cluster` or `kafka`. The arguments are those "
    "of highwater.cluster, and fail_on: the kinds of anomalies that make the test fail."
)
_KINDS = (
    *("lost", "unseen", "dirty-read", "diverged", "duplicated", "reordered"),
    *("offset-regression", "poll-skip", "invariant"),
)
"""The kinds of anomalies that a verdict can have."""
_INI = {
    "brokers": ("string", "number of brokers"),
    "topics": ("args", "topics to create at the start, such as orders:3 (partitions) or orders:3:2 (and replicas)"),
    "era": ("string", "Kafka release whose rules apply, such as kafka-2.0"),
    "config": ("args", "Kafka's broker settings, such as min.insync.replicas=2"),
    "fail_on": ("args", "kinds of anomalies that make a test fail, such as lost duplicated, or any; empty: none"),
}
SCENARIO_SUFFIX = ".highwater.yaml"
_LOG_LINES_MAX = 40


def pytest_addoption(parser: pytest.Parser) -> None:
    for name, (kind, text) in _INI.items():
        parser.addini(f"highwater_{name}", f"for the fixtures kafka_cluster and kafka: {text}", kind, default=None)  # type: ignore[arg-type]


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the fixtures. Fixtures are made here because this module must not import pytest."""
    import pytest

    config.addinivalue_line("markers", _MARKER)
    plugin: Any = types.ModuleType("highwater_fixtures")
    plugin.kafka_cluster = pytest.fixture(name="kafka_cluster")(_kafka_cluster)
    plugin.kafka = pytest.fixture(name="kafka")(_kafka)
    plugin.highwater_session = pytest.fixture(name="_highwater_session", scope="session")(_highwater_session)
    plugin.pytest_runtest_makereport = pytest.hookimpl(wrapper=True)(_makereport)
    config.pluginmanager.register(plugin, "highwater-fixtures")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a scenario file as tests, one for each variant."""
    if not file_path.name.endswith(SCENARIO_SUFFIX):
        return None
    file: pytest.Collector = _scenario_file_class().from_parent(parent, path=file_path)
    return file


class _Use:
    """One test's use of a cluster, with the kinds of anomalies that make the test fail."""

    def __init__(self, kafka: Cluster, test: str, fail_on: Sequence[str] | None) -> None:
        self.kafka = kafka
        self.test = test
        self.verdict: Verdict | None = None
        self._fail_on = fail_on

    def broken(self, anomalies: Sequence[Mapping[str, Any]], faults: Sequence[str]) -> list[str]:
        """Return a sentence for each anomaly that makes the test fail.

        The kinds are those of `fail_on`; by default `lost`, or none if the test caused a fault.
        """
        kinds = self._fail_on
        if kinds is None:
            kinds = () if faults else ("lost",)
        return [
            f"{anomaly['kind']}: {anomaly['sentence']}"
            for anomaly in anomalies
            if anomaly["kind"] in kinds or "any" in kinds
        ]


def _cluster_arguments(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Sequence[str] | None]:
    """Return a test's arguments for `cluster`, and its `fail_on`.

    They come from the project's pytest settings, which markers of the test override. A marker's scenario replaces the
    settings for brokers, topics and era. Since it may cause faults, `fail_on` is then empty unless it is set.

    Raises:
        HighwaterError: if a marker has an unknown argument, or `fail_on` an unknown kind.
    """
    values: dict[str, Any] = {name: request.config.getini(f"highwater_{name}") for name in _INI}
    topics = (text.split(":") for text in values["topics"] or ())
    values["topics"] = {name: tuple(sizes) or 1 for name, *sizes in topics}
    values["config"] = {name: value for name, _, value in (text.partition("=") for text in values["config"] or ())}
    for marker in reversed(list(request.node.iter_markers("highwater"))):
        unknown = [*map(repr, marker.args), *(f"`{name}`" for name in marker.kwargs if name not in _ARGUMENTS)]
        if unknown:
            raise HighwaterError(
                f"the marker `highwater` does not accept {', '.join(unknown)}; it accepts {'=, '.join(_ARGUMENTS)}="
            )
        if "scenario" in marker.kwargs:
            values |= dict.fromkeys(("brokers", "topics", "era"))
            values["fail_on"] = values["fail_on"] or ()
        config = marker.kwargs.get("config", {})
        if isinstance(config, Mapping):
            config = {**values["config"], **config}
        values |= {**marker.kwargs, "config": config}
    fail_on = _checked_kinds(values.pop("fail_on"))
    return {name: value for name, value in values.items() if value not in (None, "", {})}, fail_on


def _checked_kinds(fail_on: str | Sequence[str] | None) -> Sequence[str] | None:
    """Return `fail_on` as a sequence, None for the default. Raises HighwaterError if a kind is unknown."""
    kinds = [fail_on] if isinstance(fail_on, str) else fail_on
    for kind in kinds or ():
        if kind not in ("any", *_KINDS):
            raise HighwaterError(f"`{kind}` is not a kind of anomaly; fail_on accepts any, {', '.join(_KINDS)}")
    return kinds


@contextlib.contextmanager
def _errors_as_failures() -> Iterator[None]:
    """Turn a HighwaterError into a test failure with the same text and without a traceback of the fixture."""
    import pytest

    try:
        yield
    except HighwaterError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@functools.cache
def _uses() -> Any:
    """Return the pytest key under which a test item stores its `_Use` objects."""
    import pytest

    return pytest.StashKey[list[_Use]]()


def _kafka_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Provide a Kafka cluster for this test alone, as `highwater.cluster` returns it.

    Configure it with the marker `highwater`, or with highwater_brokers, highwater_topics, highwater_era,
    highwater_config and highwater_fail_on in the project's pytest settings.
    """
    import pytest

    with _errors_as_failures():
        arguments, fail_on = _cluster_arguments(request)
        kafka = cluster(**arguments, record=tmp_path_factory.getbasetemp(), keep=False).start()
    use = _Use(kafka, request.node.nodeid, fail_on)
    request.node.stash.setdefault(_uses(), []).append(use)
    yield kafka
    with _errors_as_failures():
        use.verdict = verdict = kafka.stop()
    if broken := use.broken(verdict.anomalies, kafka.faults):
        kafka.keep()
        pytest.fail("\n".join([*broken, "", str(verdict)]), pytrace=False)


class SharedCluster(_Breakable):
    """One test's view of a cluster that all tests of a session share; provided by the fixture `kafka`."""

    def __init__(self, kafka: Cluster, number: int) -> None:
        self.cluster = kafka
        """The shared cluster, for methods that this class does not have."""
        self.bootstrap_servers = kafka.bootstrap_servers
        self.topics: list[str] = []
        """The names of the topics that this test created."""
        self.faults: list[str] = []
        """The sentences that `fault` has returned in this test."""
        self._number = number

    def name(self, name: str) -> str:
        """Return `name` with a suffix that is unique to this test, for groups and transactional ids."""
        return f"{name}-t{self._number}"

    def topic(self, name: str = "orders", partitions: int = 1, replication_factor: int | None = None) -> str:
        """Create a topic for this test and return its name, which has a suffix unique to the test.

        Later calls with the same `name` return the same topic.
        """
        topic = self.name(name)
        if topic not in self.topics:
            self.cluster.create_topic(topic, partitions, replication_factor)
            self.topics.append(topic)
        return topic

    def fault(self, step: str | Mapping[str, Any], *, timeout: float = _ANSWERS_WITHIN_S) -> str:
        """Cause or end a fault, as `Cluster.fault` does. All faults end with the test."""
        said = self.cluster.fault(step, timeout=timeout)
        self.faults.append(said)
        return said

    def wait_until(self, condition: str | Mapping[str, Any], *, timeout: float = _ANSWERS_WITHIN_S) -> None:
        """Wait until a condition holds; see `Cluster.wait_until`."""
        self.cluster.wait_until(condition, timeout=timeout)


class _Session:
    """The clusters that the tests of a session share, one for each configuration, and each test's use of them."""

    def __init__(self, record: Path) -> None:
        self._record = record
        self._clusters: dict[str, Cluster] = {}
        self.uses: list[tuple[_Use, SharedCluster]] = []

    def cluster(self, arguments: Mapping[str, Any]) -> Cluster:
        key = repr(sorted(arguments.items()))
        if key not in self._clusters:
            self._clusters[key] = cluster(**arguments, record=self._record, keep=False).start()
        return self._clusters[key]

    def stop(self) -> list[str]:
        """Stop all clusters. Return the lines of a failure message that names each affected test, or an empty list."""
        said: list[str] = []
        for kafka in self._clusters.values():
            verdict = kafka.stop()
            broken = [
                f"{use.test}: {sentence}"
                for use, shared in self.uses
                if use.kafka is kafka
                for sentence in use.broken(
                    [
                        anomaly
                        for anomaly in verdict.anomalies
                        if str(anomaly["partition"]).rpartition("-")[0] in shared.topics
                    ],
                    shared.faults,
                )
            ]
            if broken:
                kafka.keep()
                said += [*broken, "", str(verdict)]
        return said


def _highwater_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Session]:
    """Provide the clusters that the tests of a session share, for the fixture `kafka`."""
    import pytest

    session = _Session(tmp_path_factory.getbasetemp())
    yield session
    with _errors_as_failures():
        broken = session.stop()
    if broken:
        pytest.fail("\n".join(broken), pytrace=False)


def _kafka(request: pytest.FixtureRequest, _highwater_session: _Session) -> Iterator[SharedCluster]:
    """Provide a Kafka cluster that the tests of a session share. `kafka.topic()` creates a topic for one test alone.

    Configure it like `kafka_cluster`. Tests with the same configuration share one cluster.
    """
    with _errors_as_failures():
        arguments, fail_on = _cluster_arguments(request)
        kafka = _highwater_session.cluster(arguments)
    shared = SharedCluster(kafka, len(_highwater_session.uses))
    use = _Use(kafka, request.node.nodeid, fail_on)
    _highwater_session.uses.append((use, shared))
    request.node.stash.setdefault(_uses(), []).append(use)
    yield shared
    if shared.faults:
        with _errors_as_failures():
            kafka.heal()


def _makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Keep the runs of a failed test, and add their logs and the commands to view them to its report."""
    report: Any = yield
    uses: list[_Use] = item.stash.get(_uses(), [])
    if report.failed and report.when in ("setup", "call"):
        for use in uses:
            _add_section(report, "highwater", _kept(use.kafka))
    elif report.when == "teardown":
        for use in uses:
            if use.verdict is not None and use.kafka.is_kept and not report.failed:
                report.sections.append(("highwater verdict at teardown", str(use.verdict)))
            elif use.verdict is not None and not use.kafka.is_kept:
                use.kafka.remove()
    return report


def _kept(kafka: Cluster) -> str:
    run = shlex.quote(str(kafka.keep()))
    lines = kafka.log.splitlines()
    left_out = [f"  (last {_LOG_LINES_MAX} of {len(lines)} lines; all are in {kafka.run_dir.parent / 'serve.err'})"]
    faults = [f"  fault: {fault}" for fault in kafka.faults]
    return "\n".join(
        [
            *(left_out if len(lines) > _LOG_LINES_MAX else []),
            *(lines[-_LOG_LINES_MAX:] or faults or ["  There was no fault, no election and no ISR change."]),
            "",
            "  The run is kept. After the cluster has stopped:",
            f"  See it:  highwater view {run} --open",
            f"  Why:     highwater explain {run} RECORD",
        ]
    )


def _add_section(report: Any, title: str, text: str) -> None:
    if hasattr(report.longrepr, "addsection"):
        report.longrepr.addsection(title, text)
    else:
        report.sections.append((title, text))


@functools.cache
def _scenario_file_class() -> Any:
    """Return the class that collects scenario files. Defined here because this module must not import pytest."""
    import pytest

    class ScenarioFile(pytest.File):
        """A file with a scenario."""

        def collect(self) -> Iterator[pytest.Item]:
            for variant, line in _variants_of(self.path.read_text(encoding="utf-8", errors="replace")).items():
                yield ScenarioItem.from_parent(self, name=variant, line=line)

    class ScenarioItem(pytest.Item):
        """One variant of a scenario. The test passes if all expectations of the file hold."""

        def __init__(self, *, line: int, **value: Any) -> None:
            super().__init__(**value)
            self._line = line

        def runtest(self) -> None:
            folder = self.session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
            played = run(self.path, variant=self.name, record=folder)
            fail_on = _checked_kinds(self.config.getini("highwater_fail_on"))
            kinds = ("lost",) if fail_on is None else fail_on
            bad = [kind for kind in played.kinds if kind in kinds or "any" in kinds]
            if not played.held or played.summary["our_bug"] or (bad and not played.summary["expectations"]):
                played.keep()
                raise _ScenarioFailed(played)

        def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
            is_told = isinstance(excinfo.value, _ScenarioFailed | HighwaterError)
            return str(excinfo.value) if is_told else super().repr_failure(excinfo, style)

        def reportinfo(self) -> tuple[Path, int, str]:
            return self.path, self._line, f"{self.path.name}: {self.name}"

    return ScenarioFile


class _ScenarioFailed(Exception):
    """A scenario did not meet its expectations. The text has its verdict, and explains the first affected record."""

    def __init__(self, played: Run) -> None:
        hurt = next(
            (names[0] for kind in ("lost", "unseen", "duplicated", "dirty") if (names := played.records[kind])), None
        )
        story = ""
        if hurt is not None:
            with contextlib.suppress(HighwaterError):
                story = "\n" + played.explain(hurt)
        failed = [f"{item['what']}: {item['why']}" for item in played.summary["expectations"] if not item["held"]]
        why = "; ".join(failed) or ", ".join(played.kinds)
        super().__init__(f"{why}\n\n{played}\n{story}")


def _variants_of(text: str) -> dict[str, int]:
    """Return the line number of each variant of a scenario, first the scenario without a variant as `base`.

    For a file that cannot be parsed, return only `base`: its run will report the error.
    """
    import yaml

    found = {"base": 0}
    with contextlib.suppress(yaml.YAMLError):
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        for entry in _value_of(root, "variants") or ():
            if isinstance(name := _value_of(entry, "id"), str):
                found[name] = entry.start_mark.line
    return found


def _value_of(node: Any, key: str) -> Any:
    """Return the value of a key in a YAML mapping, or None if the node has no such key or is not a mapping."""
    pairs = node.value if getattr(node, "id", "") == "mapping" else ()
    return next((value.value for name, value in pairs if name.value == key), None)
