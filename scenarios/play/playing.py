"""The server of `highwater play`, for the page of a scenario and the futures that its viewer creates.

Futures are run one after the other in a thread, so the server keeps responding. The page sends these POST requests,
which page_server.py has checked:

* `choices` {future, now_us} requests the menu of a future at a moment. The answer also has the time of an added step.
* `future` {parent, and one of: words and now_us; setting; move: [step, at_us]; last: [step, for_us]; remove: step;
  text} creates a future. The answer has the future and its run.
* `verdict` {parent, and the same changes} runs a future without keeping it. The answer has the verdict.
* `delete` {number} deletes a future and its descendants. The answer has their numbers.
* `restore` {} restores the futures of the latest `delete`. The answer has the same as `future` for each of them.
* `compare` {futures: [number, number]} requests the labels of two futures side by side, and where they diverge.
* `moment` {future, place, now_us, partition, mode, pair, by} reports what the page shows. All other pages, and pages
  that are opened later, then show the same.

The answer to a request that fails, even because of a bug, is {error: reason}. Such a request changes nothing.
"""

from __future__ import annotations

import json
import traceback
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any

import trio

from scenarios.language.diagnostics import ScenarioInvalid, format_text
from scenarios.language.spec import Scenario
from scenarios.language.verbs.command_words import ShorthandError
from scenarios.language.write.lock import dump
from scenarios.play.choices import Offer, choices_of, step_of_words
from scenarios.play.futures import Future, Futures, NoSuchFuture, next_step_us
from scenarios.play.moments import Situation
from scenarios.play.viewers import VIEWERS_MAX, NoMoment, Viewers
from scenarios.run.runner import run_scenario
from scenarios.serve.page_server import Door, PageServer, Post, open_door, open_shared_door
from scenarios.view.labels import labels_of
from scenarios.view.page import RunOfPage, difference, play_page, policy_of, run_of_page

WORDS_MAX = 20


class UnknownRequest(ValueError):
    """Raised if a request is malformed. The page never sends such a request."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """The settings for viewers on other machines.

    Attributes:
        host: address to listen on.
        port: port to listen on, 0 for any free port.
        may_break: True if viewers may create futures, too.
    """

    host: str
    port: int
    may_break: bool


class Playing:
    """The futures of one scenario and their runs."""

    def __init__(self, scenario: Scenario, opens_us: int | None = None) -> None:
        """Run the scenario as written.

        Args:
            opens_us: moment that the page shows first, None for the decisive moment of the run.
        """
        self._futures = Futures(scenario)
        self._runs = {0: _play(self._futures[0])}
        if opens_us is not None:
            document = self._runs[0].document
            times_us = list(accumulate(document["tape"]["at"]))
            document["opens_at"] = bisect_right(times_us, opens_us) - 1
        self._deleted: list[Future] = []
        """The futures that the latest `delete` removed. Their runs are kept for `restore`."""
        self._turn = trio.Lock()
        self._viewers = Viewers()
        self._offers: dict[str, list[Offer]] = {}
        """Menu entries by the YAML of a scenario without its timeline, on which they do not depend."""
        self._answers: dict[str, Callable[[dict[str, Any]], object]] = {
            "choices": self._offer,
            "future": self._make,
            "verdict": self._judge,
            "delete": self._remove,
            "restore": self._restore,
            "compare": self._compare,
            "moment": self._viewers.show,
        }
        self._offers_of(self._futures[0])

    def page(self, *, follows: bool = False) -> str:
        """Return the HTML of the page, with the run of the original scenario. The page requests everything else.

        Args:
            follows: True for the page of viewers, who cannot change anything.
        """
        return play_page(self._runs[0], {"first": self._futures[0].as_json(self._runs[0].rows), "follows": follows})

    async def serve(self, ready: Callable[[Door], None], sharing: Sharing | None = None) -> None:
        """Serve the page until cancelled.

        Args:
            ready: called with the address of the page as soon as the server accepts connections.

        Raises:
            OSError: the address in `sharing` cannot be used.
        """
        posts: dict[str, Post] = {what: partial(self.answered, what) for what in self._answers}
        if sharing is None:
            door, listener = open_door(posts)
            page, watch_page = self.page(), ""
        else:
            door, listener = open_shared_door(sharing.host, sharing.port, posts)
            page, watch_page = self.page(), self.page(follows=True)
            if sharing.may_break:
                door = replace(door, watch_token=None)
        ready(door)
        listening = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
        await PageServer(door, page, policy_of(page), self._viewers, watch_page, VIEWERS_MAX).serve(listening)

    async def answered(self, what: str, body: bytes) -> object:
        """Carry out a request of the page. Return the answer, {"error": reason} if the request has failed.

        Args:
            what: name of the request.
        """
        try:
            request = json.loads(body)
        except (ValueError, RecursionError):
            return {"error": "the request is not JSON"}
        try:
            if not isinstance(request, dict):
                raise UnknownRequest("the request must be a JSON object")
            async with self._turn:
                return await trio.to_thread.run_sync(self._answers[what], request)
        except ScenarioInvalid as invalid:
            errors = [diagnostic for diagnostic in invalid.diagnostics if diagnostic.severity == "error"]
            return {"error": format_text(invalid.file, errors, "Nothing was played.")}
        except ShorthandError as wrong:
            return {"error": f"{wrong}; {wrong.fix}"}
        except (UnknownRequest, NoSuchFuture, NoMoment) as wrong:
            return {"error": str(wrong)}
        except Exception as bug:  # A bug must not end the server, whose page and futures remain usable.
            traceback.print_exc()
            what = f"{type(bug).__name__}: {bug}"
            return {"error": f"A bug in Highwater: this future cannot be played. {what}. The terminal shows where."}

    def _offer(self, request: dict[str, Any]) -> object:
        number, now_us = _number(request, "future"), _number(request, "now_us")
        future = self._futures[number]
        at_us = next_step_us(now_us)
        moment = Situation(future.scenario, self._runs[number].rows, at_us)
        return {"at_us": at_us, "choices": [offer.as_json(moment) for offer in self._offers_of(future)]}

    def _offers_of(self, future: Future) -> list[Offer]:
        text = dump(replace(future.scenario, timeline=()))
        if text not in self._offers:
            self._offers[text] = choices_of(future.scenario)
        return self._offers[text]

    def _make(self, request: dict[str, Any]) -> object:
        future = self._changed(request)
        try:
            run = _play(future)
        except BaseException:
            self._futures.delete(future.number)
            raise
        self._runs[future.number] = run
        return self._announced(future)

    def _announced(self, future: Future) -> dict[str, Any]:
        """Announce a future and its run to all pages, and return the announcement."""
        assert future.parent is not None
        parent, run = self._runs[future.parent], self._runs[future.number]
        document = {**run.document, "differs": difference(parent, run)}
        answer = {"future": future.as_json(run.rows), "run": document, "labels": labels_of([parent.named, run.named])}
        self._viewers.made(answer)
        return answer

    def _judge(self, request: dict[str, Any]) -> object:
        future = self._changed(request)
        self._futures.delete(future.number)
        head = _play(future).document["head"]
        return {"verdict": head["verdict"], "lost": len(head["lost"])}

    def _remove(self, request: dict[str, Any]) -> object:
        gone = self._futures.delete(_number(request, "number"))
        for future in self._deleted:
            del self._runs[future.number]
        self._deleted = gone
        numbers = [future.number for future in gone]
        self._viewers.gone(numbers)
        return {"gone": numbers}

    def _restore(self, _: dict[str, Any]) -> object:
        self._futures.restore(self._deleted)
        restored, self._deleted = self._deleted, []
        return {"restored": [self._announced(future) for future in restored]}

    def _compare(self, request: dict[str, Any]) -> object:
        match request:
            case {"futures": [int(first), int(second)]}:
                item, other = (self._runs[self._futures[number].number] for number in (first, second))
                labels, differs = labels_of([item.named, other.named]), difference(item, other)
                answer = {"futures": [first, second], "labels": labels, "differs": differs}
                self._viewers.compared(answer)
                return answer
        raise UnknownRequest("the request does not name two futures")

    def _changed(self, request: dict[str, Any]) -> Future:
        parent = _number(request, "parent")
        match request:
            case {"words": list(words), "now_us": int(now_us)} if _are_words(words):
                step = step_of_words(self._futures[parent].scenario, words)
                return self._futures.add_step(parent, now_us, step)
            case {"setting": str(setting)}:
                return self._futures.change_setting(parent, setting)
            case {"move": [int(index), int(at_us)]}:
                return self._futures.move_step(parent, index, at_us)
            case {"last": [int(index), (int() | None) as for_us]}:
                return self._futures.change_length(parent, index, for_us)
            case {"remove": int(index)}:
                return self._futures.remove_step(parent, index)
            case {"text": str(text)}:
                return self._futures.edit(parent, text)
        raise UnknownRequest("the request has no change that Highwater knows")


def _play(future: Future) -> RunOfPage:
    result = run_scenario(future.scenario, runs_dir=None, keep_rows=True)
    run = run_of_page(result.rows, result.summary, future.scenario)
    run.document["head"]["label"] = future.name
    return run


def _number(request: dict[str, Any], key: str) -> int:
    number = request.get(key)
    if not isinstance(number, int):
        raise UnknownRequest(f"`{key}` must be a number")
    return number


def _are_words(words: list[object]) -> bool:
    return 0 < len(words) <= WORDS_MAX and all(isinstance(word, str) for word in words)
