"""The fabric of live runs: this process's machines, and TCP connections between them and from outside clients.

A fabric needs to know only two things about other processes: which node has an address (`name_of`), and the state of
the links that begin at its own machines.
"""

from __future__ import annotations

import errno
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from cluster.live.acceptor import SocketAcceptor
from cluster.live.client_tap import Tap
from cluster.live.frames import SCRATCH_BYTES
from cluster.live.peers import OTHERS, OUTSIDERS_MAX, UNNAMED, Address, RunSecret
from cluster.live.request_memory import RequestMemory
from cluster.live.sockets import LOOPBACK, PortTaken, ServerPort, can_be_dialed, raise_descriptor_limit, tcp_socket
from cluster.live.tcp_connection import TcpConnection
from cluster.live.time import LiveTime
from cluster.live.tls import secured, server_context
from cluster.network.host import Host
from cluster.network.links import Network
from cluster.network.passage import CLOSED, NetworkEvents
from cluster.network.world import ConnectionGone, Parking, ProcessExit
from cluster.security import OPEN, ListenerSecurity, ServerListener
from cluster.server.accepted_connections import EndsOfConnections
from cluster.slices import Slices
from replica.ids import OUTSIDE
from replica.trace.events import ConnectionClosed, ConnectionLost, RequestCrashed, TraceLog

SYN_BYTES = 60
WORKERS = 2
"""The number of threads for long jobs. It also limits the memory that such jobs take together."""

__all__ = ["PortTaken", "TcpFabric"]


class LiveNetworkEvents(NetworkEvents):
    """Writes the network events of a live run, except those that an outside client could cause without limit.

    Every end of a connection that carried a request gets an event, because the event separates the requests of this
    connection from those of the next.
    """

    def __init__(self, trace: TraceLog, api_name: Callable[[int], str]) -> None:
        super().__init__(trace, api_name)
        self._ends = EndsOfConnections(trace)

    def lost(self, lost: ConnectionLost) -> None:
        if lost.peer.startswith(OUTSIDE) or self._ends.may_emit(lost.node, lost.peer):
            super().lost(lost)

    def closed(self, closed: ConnectionClosed) -> None:
        if self._ends.may_emit(closed.node, closed.peer):
            super().closed(closed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDoors:
    """The addresses, ports and security of the servers of one process.

    Attributes:
        bind_host: address on which servers with a fixed port listen and are reached; 0.0.0.0 for all addresses of this
            machine, in which case nodes use the loopback interface.
        ports: fixed ports by server; other servers get a free port of the loopback interface.
        security: security protocol that servers require of outside clients.
        secret: secret of a run that another process has started; None if this process starts it.
    """

    bind_host: str = LOOPBACK
    ports: Mapping[str, int] = field(default_factory=dict)
    security: ListenerSecurity = OPEN
    secret: RunSecret | None = None


class TcpFabric:
    """All machines of one process and their TCP connections.

    Raises:
        TlsFilesInvalid: if the certificate or key cannot be used.
    """

    is_live = True
    tells_acks_first = False
    """True if an ack is recorded before the kernel has it, because the process may be killed in between."""
    end_kind: type[TcpConnection] = TcpConnection
    """The class of connections that this process opens."""

    def __init__(
        self,
        time: LiveTime,
        network: Network,
        trace: TraceLog,
        api_name: Callable[[int], str] = str,
        doors: ServerDoors | None = None,
    ) -> None:
        doors = doors or ServerDoors()
        self.time = time
        self.security = security = doors.security
        self.secret = doors.secret or RunSecret()
        self._tls = None if security.tls is None else server_context(security.tls)
        self.network = network
        self.events = LiveNetworkEvents(trace, api_name)
        self.hosts: dict[str, Host] = {}
        self.exits: list[ProcessExit] = []
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.nursery: trio.Nursery
        self.tap: Tap | None = None
        """The observer of outside clients' connections; None if they are not observed."""
        self.slices = Slices(
            now=lambda: time.now_us,
            clock=time.slicing,
            at=lambda at_us, go_on: time.at(at_us, lambda: go_on(time.now_us)),
        )
        """Divides the observation of connections into slices, because one request may have very many records."""
        self._bind_host = doors.bind_host
        self._wanted_ports = doors.ports
        self._ports: dict[str, ServerPort] = {}
        self._more_ports: dict[str, list[tuple[ServerPort, ServerListener]]] = {}
        """The server ports of each machine except its first one, with their listeners."""
        self._acceptors: dict[str, list[SocketAcceptor]] = {}
        self._ends: dict[TcpConnection, None] = {}
        self._dark: dict[TcpConnection, None] = {}
        self._waiting_dials: dict[Parking, None] = {}
        self.request_memory = RequestMemory()
        self._workers = trio.CapacityLimiter(WORKERS)
        self._trace = trace
        self._outsiders: dict[str, None] = {}
        self._callers: dict[tuple[Address, Address], TcpConnection] = {}
        """Connections that this process has opened but not yet accepted, by the addresses of both ends."""

    # ------------------------------------------------------------------------------------------------------ machines

    def add_host(self, name: str) -> Host:
        assert name not in self.hosts, f"there are two nodes named {name}"
        host = self.hosts[name] = Host(self, name)
        return host

    def address(self, name: str, port: int) -> Address:
        """Return the address of a machine's server. Reserve the machine's ports first if that has not been done.

        Raises:
            PortTaken: if the requested port is in use.
        """
        if name not in self._ports:
            host = self._bind_host if name in self._wanted_ports else LOOPBACK
            self._ports[name] = ServerPort(host, self._wanted_ports.get(name, 0))
            self._more_ports[name] = [
                (ServerPort(host, listener.ports[name]), listener)
                for listener in self.security.listeners
                if name in listener.ports
            ]
        return self._ports[name].address

    def name_of(self, address: Address) -> str:
        """Return the name of the machine whose server has this address, or the address as text if there is none."""
        for name, port in self._ports.items():
            if address == port.address:
                return name
        return f"{address[0]}:{address[1]}"

    def open(self, nursery: trio.Nursery) -> None:
        raise_descriptor_limit()
        self.nursery = nursery

    def close(self) -> None:
        for name in list(self._acceptors):
            self._close_acceptors(name)
        for end in list(self._ends):
            end.hang_up()
        for port in (*self._ports.values(), *(port for ports in self._more_ports.values() for port, _ in ports)):
            port.close()

    # ------------------------------------------------------------------------------------------------------- servers

    def listening(self, host: Host) -> None:
        self.address(host.name, 0)
        acceptors = self._acceptors[host.name] = [SocketAcceptor(self, host, self._ports[host.name].listen(), None)]
        for port, listener in self._more_ports[host.name]:
            acceptors.append(SocketAcceptor(self, host, port.listen(), listener))
        for acceptor in acceptors:
            self.nursery.start_soon(acceptor.run)

    def deaf(self, host: Host) -> None:
        """Close the server sockets of a dead process, so that the kernel refuses connections.

        A machine without power keeps its sockets open, but does not answer.
        """
        if host.powered:
            self._close_acceptors(host.name)

    def _close_acceptors(self, name: str) -> None:
        for acceptor in self._acceptors.pop(name, ()):
            acceptor.close()

    def expected(self, caller: Address, server: Address) -> str | None:
        """Return the name of the machine that these addresses belong to; None for an outside client.

        Addresses prove nothing: the machine at the other end must still prove its identity.
        """
        near = self._callers.get((caller, server))
        return None if near is None else near.host.name

    def accepted(
        self, host: Host, sock: socket.socket, caller: Address, node: str | None, listener: ServerListener | None
    ) -> TcpConnection:
        """Create the server's end of an accepted connection.

        Args:
            node: the node that has proved to be at the other end; None for an outside client.
            listener: None for the first listener, which all nodes use.

        Raises:
            OSError: if the connection has already ended.
        """
        has_tls = listener is None or listener.has_tls
        if node is None and has_tls and self._tls is not None:
            sock = secured(sock, self._tls)
        end = TcpConnection(self, host, node or UNNAMED, sock, accepted=True)
        if node is not None:
            near = self._callers.pop((caller, sock.getsockname()[:2]), None)
            if near is not None:
                end.pair_with(near)
        else:
            name = self.security.clients_first if listener is None else listener.name
            end.comes_from(f"{caller[0]}:{caller[1]}", name)
        self._ends[end] = None
        return end

    # Subclasses for several processes in one cluster override these methods: see `neighbours`.

    def proves_itself(self, name: str) -> bool:
        """Return True if the machine belongs to this run, so that a connection to it begins with a proof."""
        return self.is_here(name)

    def is_here(self, name: str) -> bool:
        """Return True if the machine's server belongs to this process."""
        return name in self._ports

    def is_dark(self, name: str) -> bool:
        """Return True if the machine has no power."""
        host = self.hosts.get(name)
        return host is not None and not host.powered

    def hides_end(self, node: str, peer: str) -> bool:
        """Return True if a real network would hide from `node` that the connection has ended."""
        return peer.startswith(OUTSIDE) and self.network.link(peer, node).is_cut

    def bind(self, sock: socket.socket, source: str) -> None:
        """Bind a socket of the machine `source` before it connects. Nothing to do here; subclasses override this."""

    def outsider(self, name: str) -> str:
        """Register an outside client and return its name. Clients beyond the maximum share one name."""
        if name not in self._outsiders and len(self._outsiders) >= OUTSIDERS_MAX:
            name = OTHERS
        self._outsiders[name] = None
        return name

    @property
    def outsiders(self) -> Sequence[str]:
        return tuple(self._outsiders)

    async def apart(self, job: Callable[[], None]) -> None:
        cause = self.time.cause
        await trio.to_thread.run_sync(job, abandon_on_cancel=True, limiter=self._workers)
        self.time.enter(cause)

    def contains(self, node: str, peer: str, failure: Exception) -> bool:
        """Report a bug in Highwater that a request has triggered. Return True: the run continues."""
        last = traceback.extract_tb(failure.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        bug = type(failure).__name__
        self._trace.emit(RequestCrashed(node=node, peer=peer, bug=bug, raised_at=where, message=str(failure)))
        return True

    # ----------------------------------------------------------------------------------------------- connections

    async def connect(self, source: Host, target: str, port: int) -> TcpConnection:
        """Open a connection. Wait as long as faults delay the answer.

        Raises:
            ConnectionGone: if the connection is refused.
        """
        cause = self.time.cause
        name = self.name_of((target, port))
        await self._syn_and_answer(source.name, name)
        process = source.process
        end = await self._connect(source, name, (target, port))
        while source.paused:
            parking = Parking()
            source.may_run(partial(self.time.resume, parking))
            await self.time.park(parking)
        if source.process is not process:
            end.close()
            raise ConnectionGone(CLOSED.meaning)
        self.time.enter(cause)
        return end

    async def _syn_and_answer(self, source: str, target: str) -> None:
        """Wait as long as faults delay the connection request (SYN) and its answer.

        Simplified: TCP would repeat a lost SYN at growing intervals; here the connection continues as soon as faults
        allow.
        """
        there, back = self.network.link(source, target), self.network.link(target, source)
        while self._is_silent(source, target):
            parking = Parking()
            self._waiting_dials[parking] = None
            try:
                await self.time.park(parking)
            finally:
                del self._waiting_dials[parking]
        now_us = self.time.now_us
        arrival_us = back.arrival_us(there.arrival_us(now_us, SYN_BYTES), SYN_BYTES)
        if arrival_us > now_us:
            await self.time.sleep_until(arrival_us)

    def _is_silent(self, source: str, target: str) -> bool:
        return (
            self.is_dark(target) or self.network.link(source, target).is_cut or self.network.link(target, source).is_cut
        )

    async def _connect(self, source: Host, name: str, address: Address) -> TcpConnection:
        sock = tcp_socket()
        end = self.end_kind(self, source, name, sock, accepted=False)
        try:
            self.bind(sock, source.name)
            error = sock.connect_ex(address) if can_be_dialed(address) else errno.EINVAL
            # The entry exists before any task can accept the connection, because no other task has run since.
            key = sock.getsockname()[:2], address
            if self.is_here(name):
                end.tells_causes()
                self._callers[key] = end
            if error == errno.EINPROGRESS:
                await trio.lowlevel.wait_writable(sock)
                error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        except BaseException:  # The caller may be cancelled while it waits.
            end.hang_up()
            raise
        if error:
            self._callers.pop(key, None)
            end.hang_up()
            raise ConnectionGone("refused")
        if self.proves_itself(name):
            proof = self.secret.proof(*key)
            end.begin_with(proof, self.secret.answer(proof))
        self._ends[end] = None
        return end

    def ends_of(self, host: Host) -> list[TcpConnection]:
        return [end for end in self._ends if end.host is host and (end.open or end.stopped)]

    def forget(self, end: TcpConnection) -> None:
        self._ends.pop(end, None)
        self._dark.pop(end, None)

    def went_dark(self, end: TcpConnection) -> None:
        """Record that the machine at this end has lost power.

        The kernel still has the connection, but the other end must not learn from it that the machine is off.
        """
        self._dark[end] = None

    # --------------------------------------------------------------------------------------------------- faults

    def move_on(self) -> None:
        for end in [end for end in self._dark if end.host.powered]:
            del self._dark[end]
            self.nursery.start_soon(end.answer_with_reset)
        for name in list(self._acceptors):
            if self.hosts[name].powered and self.hosts[name].listener is None:
                self._close_acceptors(name)
        for end in list(self._ends):
            end.move_on()
        for parking in list(self._waiting_dials):
            self.time.resume(parking)

    async def settle(self) -> None:
        pass  # In one process, faults are in force immediately.

    async def stand_still(self) -> None:
        """Complete the observation of client traffic. Nothing else runs until the caller advances the time."""
        self.finish_reading()

    def finish_reading(self) -> None:
        """Observe all data that clients have sent and received and that is not observed yet."""
        self.slices.finish()

    async def reset(self, item: str, two: str) -> int:
        ends = [end for end in self._ends if end.open and {end.host.name, end.peer} == {item, two}]
        for end in ends:
            self.time.at(self.time.now_us, end.reset)
        return sum(1 for end in ends if not (end.is_paired and end.accepted))
