"""The operator's end of a live cluster: one request per connection of a private socket, answered between two steps.

request: {"words": [...], "for": ..., "as": ...}, {"yaml": step}, {"end": name} or {"list": true}, as JSON. All is
judged by the language's own rules, and each action goes through the run's timeline, as the steps of a file do.
"""

from __future__ import annotations

import json
import socket
from typing import Any

import trio
import yaml

from cluster.live.time import LiveTime
from scenarios.language.diagnostics import ScenarioInvalid, as_dict, format_text
from scenarios.language.parse.fault_shorthand import step_of
from scenarios.language.verbs.command_words import ShorthandError
from scenarios.run.runner import ScenarioRun
from scenarios.serve.cluster_state import cluster_state
from scenarios.serve.control_place import REQUEST_BYTES_MAX
from scenarios.serve.operator_steps import read_operator_step

ASK_WITHIN_S = 5.0
DONE_WITHIN_S = 20.0
TAKEN_WITHIN_S = 60.0
"""The state of 10,000 partitions has 4 MB, and a cluster that is busy sends it in its spare time."""
AT_ONCE_MAX = 16
WORDS_MAX = 200
Answer = dict[str, Any]


class BadRequest(ValueError):
    """A request that `highwater fault` would not send."""


class ControlServer:
    """Answers until it is cancelled."""

    def __init__(self, run: ScenarioRun, time: LiveTime) -> None:
        self._run = run
        self._time = time
        self._next_index = len(run.scenario.timeline)  # Steps are numbered on from those of the file.
        self._limit = trio.CapacityLimiter(AT_ONCE_MAX)

    async def serve(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        door = trio.socket.from_stdlib_socket(listener)
        async with trio.open_nursery() as nursery:
            while True:
                await self._limit.acquire_on_behalf_of(turn := object())
                sock, _ = await door.accept()
                nursery.start_soon(self._connection, trio.SocketStream(sock), turn)

    async def _connection(self, stream: trio.SocketStream, turn: object) -> None:
        try:
            async with stream:
                answer = None
                with trio.move_on_after(ASK_WITHIN_S + DONE_WITHIN_S):
                    answer = await self._answer(stream)
                with trio.move_on_after(TAKEN_WITHIN_S):
                    if answer is not None:
                        await stream.send_all(json.dumps(answer).encode())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # The caller is gone; the trace shows whether its request was carried out.
        finally:
            self._limit.release_on_behalf_of(turn)

    async def _answer(self, stream: trio.SocketStream) -> Answer | None:
        """None if the caller only looked whether the server is there."""
        data = bytearray()
        with trio.move_on_after(ASK_WITHIN_S) as patience:
            async for chunk in stream:
                data += chunk
                if len(data) > REQUEST_BYTES_MAX:
                    return _failed("request", f"more than {REQUEST_BYTES_MAX:,} bytes")
        if patience.cancelled_caught:
            return _failed("request", f"it was not complete within {ASK_WITHIN_S:g} s")
        if not data:
            return None
        try:
            return await self._do(data)
        except BadRequest as bad:
            return _failed("request", str(bad))
        except ShorthandError as wrong:
            return {**_failed("words", str(wrong)), "fix": wrong.fix}
        except ScenarioInvalid as invalid:
            text = format_text(invalid.file, invalid.diagnostics, "Nothing was done.")
            return {**_failed("step", text), "diagnostics": [as_dict(one) for one in invalid.diagnostics]}

    async def _do(self, data: bytes | bytearray) -> Answer:
        """raises: BadRequest, ShorthandError, ScenarioInvalid"""
        try:
            request = json.loads(data)
        except (ValueError, RecursionError):
            raise BadRequest("not JSON") from None
        run = self._run
        if not run.is_ready.is_set():
            return _failed("moment", "the brokers are still coming up")
        match request:
            case {"list": True}:
                self._time.enter()
                return {"ok": True, "state": cluster_state(run)}
            case {"end": str(name)}:
                return await self._told(lambda tell: run.timeline.submit_end(name, tell))
            case {"yaml": str(text)}:
                return await self._step(text)
            case {"words": list(words), "for": lasts, "as": label} if _are_texts(words, lasts, label):
                nodes = [*run.cluster.machines, *run.cluster.fabric.outsiders]
                return await self._step(_as_yaml(step_of(words, nodes, lasts, label)))
            case _:
                raise BadRequest("neither a step nor a question")

    async def _step(self, text: str) -> Answer:
        step = read_operator_step(text, self._run, self._next_index)
        self._next_index += 1
        answer = await self._told(lambda tell: self._run.timeline.submit(step, tell))
        return {**answer, "fault": step.name, "step": text}

    async def _told(self, submit: Any) -> Answer:
        """Hand it to the timeline, which acts between two steps of the cluster, and wait for its answer."""
        said: list[tuple[str, bool]] = []
        done = trio.Event()

        def tell(sentence: str, held: bool) -> None:
            said.append((sentence, held))
            done.set()

        self._time.enter()
        submit(tell)
        with trio.move_on_after(DONE_WITHIN_S):
            await done.wait()
        if not said:
            return _failed("moment", f"not done within {DONE_WITHIN_S:g} s; it may still be")
        sentence, held = said[0]
        return {"ok": True, "what": sentence} if held else _failed("moment", sentence)


def _as_yaml(step: dict[str, Any]) -> str:
    return str(yaml.safe_dump(step, default_flow_style=True, sort_keys=False, width=10_000)).strip()


def _are_texts(words: list[object], lasts: object, label: object) -> bool:
    return (
        0 < len(words) <= WORDS_MAX
        and all(isinstance(word, str) for word in words)
        and all(one is None or isinstance(one, str) for one in (lasts, label))
    )


def _failed(kind: str, text: str) -> Answer:
    return {"ok": False, "kind": kind, "error": text}
