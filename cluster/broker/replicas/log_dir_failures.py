"""A broker with a disk that refuses: the directory goes offline and the controller is notified, or the broker halts.

source: LogDirFailureChannel, ReplicaManager.handleLogDirFailure, BrokerLifecycleManager.propagateDirectoryFailure;
KIP-112, KIP-858
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from cluster.broker.replicas.fetchers import ReplicaFetchers
from cluster.broker.replicas.manager import ReplicaManager
from replica.log.broker_logs import BrokerLogs
from replica.log.files.disk import Disk
from replica.trace.events import LogDirFailed, Recorder


class LogDirFailures:
    """Disks report as they refuse; `handle` is called once the request that ran into it has been dealt with.

    metadata_log_dir: metadata.log.dir, the first of log.dirs, without which a broker of KRaft cannot go on
    propagate: report to the controller     halt: the process ends at once, without shutting down
    """

    def __init__(
        self,
        *,
        node: str,
        metadata_log_dir: str | None,
        logs: BrokerLogs,
        replicas: ReplicaManager,
        fetchers: ReplicaFetchers,
        recorder: Recorder,
        propagate: Callable[[UUID, int], None],
        halt: Callable[[str], None],
    ) -> None:
        self.reported: list[tuple[Disk, str]] = []
        self._node = node
        self._metadata_log_dir = metadata_log_dir
        self._logs = logs
        self._replicas = replicas
        self._fetchers = fetchers
        self._recorder = recorder
        self._propagate = propagate
        self._halt = halt

    def report(self, disk: Disk, why: str) -> None:
        self.reported.append((disk, why))

    def handle(self, now_us: int) -> None:
        reported, self.reported = self.reported, []
        for disk, why in reported:
            failed = self._logs.take_offline(disk)
            if failed is not None:
                name, manager = failed
                self._state(name, [str(replica) for replica in manager.logs], why)
                for replica in manager.logs:
                    self._fetchers.remove(replica)
                    self._replicas.take_offline(replica)
                self._fetchers.close_idle()
                self._go_on_without(name, manager.directory_id, now_us)

    def _state(self, name: str, replicas: list[str], why: str) -> None:
        directory = f"log directory {name}" if name else "log directory"
        what = f" with {', '.join(replicas)}" if replicas else ""
        self._recorder.emit(
            LogDirFailed(
                node=self._node,
                log_dir=name,
                replicas_offline=tuple(replicas),
                reason=f"{self._node} takes its {directory}{what} offline: {why}",
            )
        )

    def _go_on_without(self, name: str, directory_id: UUID, now_us: int) -> None:
        if not self._logs.directories:
            self._halt("its last log directory has failed")
        elif name == self._metadata_log_dir:
            self._halt(f"{name} is its metadata.log.dir, too")
        else:
            self._propagate(directory_id, now_us)
