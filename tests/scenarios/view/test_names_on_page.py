"""What the page calls things: names that look alike, runs that differ in little, lost records."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.language.spec import Scenario
from scenarios.run.runner import run_scenario
from scenarios.view.labels import NamedRun, labels_of
from scenarios.view.page import RunOfPage, page_of, run_of_page
from tests.browser import needs_chromium
from tests.driven import driven

FLEET = """
schema: 1
id: fleet
title: Clients and brokers whose names begin alike
seed: 1
duration: 20s
cluster: {controllers: [controller-1], brokers: {broker-1: {}, broker-2: {}, broker-3: {}}}
topics: {payments.eu-west.orders.v1: {partitions: {0: [broker-1, broker-2, broker-3]}}}
workloads:
  checkout-service-producer-1: {kind: producer, topic: payments.eu-west.orders.v1, prefix: orders, rate: 40/s, stop: 9s,
    config: {acks: 1, enable.idempotence: false}}
  checkout-service-producer-2: {kind: producer, topic: payments.eu-west.orders.v1, prefix: bills, rate: 10/s, stop: 9s,
    config: {acks: 0, enable.idempotence: false}}
  checkout-service-reader: {kind: consumer, topic: payments.eu-west.orders.v1}
timeline: []
expect: {}
"""


def run_of(scenario: Scenario) -> RunOfPage:
    result = run_scenario(scenario, runs_dir=None, keep_rows=True)
    return run_of_page(result.rows, result.summary, scenario)


def bundled_run(name: str, *settings: str, variant: str | None = None) -> RunOfPage:
    file = load_file(find_scenario(name), settings, variant or "base")
    return run_of(file.variants[variant] if variant else file.scenario)


def digest(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()[:20]


NAMINGS: dict[str, Callable[[int], str]] = {
    "a client's number": lambda number: f"orders-0-{number}",
    "four digits": lambda number: f"r{1000 + number}",
    "the end is the same": lambda number: f"order-{number}-created",
    "digests": digest,
    "two kinds": lambda number: f"{'refunds' if number % 2 else 'orders'}-eu-{number // 2}",
}
DRAWN = """(lanes) => lanes.map((lane) => [...lane.querySelectorAll("[data-record]")].map((one) => {
  const name = one.querySelector(".name"), box = one.querySelector("rect").getBoundingClientRect();
  return [one.dataset.record, name.textContent, name.getBoundingClientRect().width <= box.width + 2];
}))"""


@pytest.fixture(scope="module")
def busy() -> RunOfPage:
    return bundled_run("acks1-leader-kill", "workloads.p1.rate=20/s")


@pytest.mark.soak
@needs_chromium
@pytest.mark.parametrize("naming", NAMINGS.values(), ids=NAMINGS)
def test_records_are_told_apart(
    naming: Callable[[int], str], busy: RunOfPage, browser: Browser, tmp_path: Path
) -> None:
    """On one stage, on three beside each other, and on a narrow one."""
    tape: dict[str, Any] = busy.document["tape"]
    names = [naming(number) for number in range(len(tape["records"]))]
    run = RunOfPage(busy.rows, busy.document | {"tape": tape | {"records": names}}, busy.named)
    page = tmp_path / "page.html"
    page.write_text(page_of([run] * 3), encoding="utf-8")
    with driven(browser, page.as_uri() + "#r=0", 1280, 800) as shown:
        for width, key in ((1280, "PageDown"), (1280, "c"), (420, "c"), (420, "End")):
            shown.page.set_viewport_size({"width": width, "height": 800})
            shown.press(key)
            lanes = shown.page.eval_on_selector_all("svg.stage .lane", DRAWN)
            assert sum(map(len, lanes)) > 15
            for lane in lanes:
                written = {record: name for record, name, _ in lane if record != "-1"}
                assert len(set(written.values())) == len(written), written
                assert all(is_inside for _, _, is_inside in lane), lane


@pytest.mark.soak
@needs_chromium
@pytest.mark.parametrize("width", [1280, 420])
def test_brokers_and_clients_are_told_apart(width: int, browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(page_of([run_of(load_text(FLEET, "fleet.yaml").scenario)]), encoding="utf-8")
    with driven(browser, page.as_uri(), width, 800) as shown:
        texts = "(all) => all.map((one) => one.textContent)"
        badges = shown.page.eval_on_selector_all(".stage .badge-name", texts)
        clients = shown.page.eval_on_selector_all(".stage .lane-name", texts)
        strip = shown.page.eval_on_selector_all(".strip .line-name", texts)
    assert badges == ["\u20261", "\u20262", "\u20263"] == strip
    assert len(set(clients)) == len(clients) == 4
    assert [name[-1] for name in clients[:2]] == ["1", "2"]


RACKS = """
schema: 1
id: racks
title: Brokers in racks that freeze and die
seed: 1
duration: 20s
cluster: {brokers: {b1: {rack: A}, b2: {rack: A}, b3: {rack: B}, b4: {rack: B}}}
topics: {t: {partitions: {0: [b1, b2, b3, b4]}}}
workloads: {p1: {kind: producer, topic: t, rate: 4/s, config: {acks: all}}}
timeline:
  - {at: 3s, pause: b1}
  - {at: 4s, kill: b2}
expect: {}
"""
WORDS_OF_BROKERS = """(lanes) => lanes.flatMap((lane) => {
  const texts = [...lane.querySelectorAll(":scope > .word, :scope > .small.muted, :scope > .figures")];
  const area = lane.querySelector(".fault-area")?.getBoundingClientRect();
  const right = area?.right ?? lane.querySelector(".slot").getBoundingClientRect().left;
  return texts.filter((one) => one.textContent !== "\u2026").map((one) => {
    const { left, right: end, top, bottom } = one.getBoundingClientRect();
    const isFree = texts.every((other) => {
      const { left: from, right: to, top: upper } = other.getBoundingClientRect();
      return upper <= top || from >= end || to <= left || bottom <= upper + 1.5;
    });
    return [one.textContent, end <= right, isFree];
  });
})"""


@pytest.mark.soak
@needs_chromium
@pytest.mark.parametrize(("width", "keys"), [(1280, ""), (1280, "c"), (420, ""), (420, "c")])
def test_the_words_beside_a_broker_have_room(width: int, keys: str, browser: Browser, tmp_path: Path) -> None:
    """They stay within the area of a broker that is down, and none lies on the line below it."""
    page = tmp_path / "page.html"
    page.write_text(page_of([run_of(load_text(RACKS, "racks.yaml").scenario)] * 2), encoding="utf-8")
    seen: set[str] = set()
    for moment in ("4.5", "15"):
        with driven(browser, f"{page.as_uri()}#t={moment}&e=-1&r=0&p=0", width, 800) as shown:
            shown.press(*keys)
            words = shown.page.eval_on_selector_all("svg.stage .lane.broker", WORDS_OF_BROKERS)
        assert [word for word, is_inside, is_free in words if not (is_inside and is_free)] == []
        seen.update(word for word, _, _ in words)
    assert {"FROZEN, leader", "FROZEN, old leader", "DOWN", "still in the ISR", "out of the ISR"} <= seen


@pytest.mark.soak
@needs_chromium
def test_what_a_client_did_is_read_in_the_list_whatever_its_name(browser: Browser, tmp_path: Path) -> None:
    """Its lines end early: of two long names the ends are left, and the verb behind them."""
    text = FLEET.replace("checkout-service-", "checkout-service-of-the-web-shop-in-eu-west-")
    page = tmp_path / "page.html"
    page.write_text(page_of([run_of(load_text(text, "fleet.yaml").scenario)]), encoding="utf-8")
    with driven(browser, page.as_uri() + "#t=9&e=-1&r=0&p=0", 1280, 800) as shown:
        lines = shown.page.eval_on_selector_all(".event .text", "(all) => all.map((one) => one.textContent)")
    sent = [line for line in lines if " sent " in line]
    assert sent and all(line.index(" sent ") < 30 and line[0] == "\u2026" for line in sent), sent


READERS = """
schema: 1
id: readers
title: Members of a group, and faults, whose names begin alike
seed: 1
duration: 40s
cluster: {controllers: [c1], brokers: {b1: {}, b2: {}, b3: {}}}
topics: {out: {partitions: 3, replication_factor: 3}, t: {partitions: 3, replication_factor: 3}}
workloads:
  p1: {kind: producer, topic: t, rate: 2/s, stop: 30s}
  checkout-service-reader-1: {kind: transform, topic: t, to: out, config: {group.id: g}}
  checkout-service-reader-2: {kind: transform, topic: t, to: out, config: {group.id: g}}
timeline:
  - {at: 10s, pause: checkout-service-reader-1, for: 5s}
  - {at: 20s, cut: {between: [b1, b2]}}
  - {at: 20s, cut: {between: [b1, b3]}}
expect: {}
"""


@pytest.mark.soak
@needs_chromium
def test_members_and_faults_are_told_apart_on_the_strip(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(page_of([run_of(load_text(READERS, "readers.yaml").scenario)]), encoding="utf-8")
    texts = "(all) => all.map((one) => one.textContent)"
    with driven(browser, page.as_uri(), 420, 800) as shown:
        shown.page.dblclick(".strip-box svg", position={"x": 200, "y": 60})
        shown.settle()
        owners = shown.page.eval_on_selector_all(".span-text.member", texts)
        faults = shown.page.eval_on_selector_all(".fault-text", texts)
    assert {owner[-1] for owner in owners} == {"1", "2"}
    assert len(set(faults)) == len(faults) == 2


@pytest.mark.soak
@needs_chromium
def test_only_a_broken_promise_has_a_cross(browser: Browser, tmp_path: Path) -> None:
    """acks=0: nobody was told that a record is there, so none is lost."""
    signs = "(all) => all.map((one) => one.textContent)"
    for variant, wanted, badge in ((None, "\u2715", "\u2715 5 acked"), ("acks-0", "\u25cb", "\u25cb 5 missing")):
        page = tmp_path / f"{variant}.html"
        page.write_text(page_of([bundled_run("acks1-leader-kill", variant=variant)]), encoding="utf-8")
        with driven(browser, page.as_uri() + "#t=20&e=-1&r=0&p=0", 1280, 800) as shown:
            assert set(shown.page.eval_on_selector_all(".cell .end-sign", signs)) == {wanted}
            assert wanted in shown.page.eval_on_selector_all(".told .sign", signs)
            assert badge in shown.text(".pill")
            assert f"{wanted} " in shown.text(".legend .of-records")


@pytest.mark.soak
@needs_chromium
def test_records_that_nobody_can_read_are_named_in_a_sentence(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(page_of([bundled_run("elr-new-disk")]), encoding="utf-8")
    with driven(browser, page.as_uri(), 1280, 800) as shown:
        assert shown.text(".pill") == "\u2715 10 acked records that no consumer gets"


@pytest.mark.soak
@needs_chromium
def test_each_column_has_its_own_offsets_and_the_ruler_is_under_the_logs(
    busy: RunOfPage, browser: Browser, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    runs = [busy, bundled_run("acks1-leader-kill")]
    page.write_text(page_of(runs), encoding="utf-8")
    with driven(browser, page.as_uri() + "#t=19&e=-1&r=0&p=0&c=1", 1280, 800) as shown:
        seats = shown.page.query_selector_all(".seat")
        rulers = [[one.text_content() for one in seat.query_selector_all(".offset")] for seat in seats]
        logs = [seat.query_selector_all(".lane.broker .cell rect") for seat in seats]
        lowest = [max(box["y"] + box["height"] for one in cells if (box := one.bounding_box())) for cells in logs]
        heights = [box["y"] for seat in seats if (box := seat.query_selector(".offset").bounding_box())]  # type: ignore[union-attr]
    assert int(rulers[0][0] or 0) > 100 > int(rulers[1][-1] or 0)
    assert all(height > low for height, low in zip(heights, lowest, strict=True))


# ------------------------------------------------------------------------------------------------------- names of runs


def named(scenario: Scenario, number: int = 0) -> NamedRun:
    summary = {"scenario": scenario.id, "variant": scenario.variant, "seed": scenario.seed}
    return NamedRun(summary | {"run_dir": f"runs/{number:04d}-x"}, scenario)


def played(*settings: str, name: str = "acks1-leader-kill", variant: str | None = None) -> Scenario:
    file = load_file(find_scenario(name), settings, variant or "base")
    return file.variants[variant] if variant else file.scenario


@pytest.mark.parametrize(
    ("scenarios", "labels"),
    [
        ([played(), played(variant="acks-all")], ["acks=1", "acks=all"]),
        ([played(), played("workloads.p1.rate=50/s")], ["rate not set", "rate=50/s"]),
        ([played("seed=1"), played("seed=7")], ["seed 1", "seed 7"]),
        ([played(), played("workloads.p1.config.acks=0", "seed=2")], ["acks=1, seed 1", "acks=0, seed 2"]),
        ([played(), played(name="txn-zombie")], ["acks1-leader-kill", "txn-zombie"]),
        (
            [played(), played(variant="acks-all"), played(name="txn-zombie")],
            ["acks1-leader-kill, acks=1", "acks1-leader-kill, acks=all", "txn-zombie"],
        ),
        ([played(), played()], ["as written, run 0000", "as written, run 0001"]),
        ([played("profile=kafka-2.0"), played()], ["kafka-2.0", "kafka-3.9"]),
        ([played()], ["as written"]),
        (
            [played(name="min-isr-1-trap"), played(name="min-isr-1-trap", variant="min-isr-2")],
            ["min.insync.replicas=1", "min-isr-2: min.insync.replicas=2"],
        ),
    ],
)
def test_runs_are_called_by_what_differs(scenarios: list[Scenario], labels: list[str]) -> None:
    assert labels_of([named(scenario, number) for number, scenario in enumerate(scenarios)]) == labels


@pytest.mark.soak
def test_two_scenarios_have_two_titles() -> None:
    first, second = bundled_run("acks1-leader-kill"), bundled_run("txn-zombie")
    title = page_of([first, second]).partition("<title>")[2].partition("</title>")[0]
    assert title == "Acked by the leader, gone with the leader / A zombie is fenced by its transactional.id - Highwater"


@pytest.mark.soak
@needs_chromium
@pytest.mark.parametrize("mode", ["", "&c=1"])
def test_the_end_of_a_log_is_marked_only_where_it_is_in_sight(mode: str, browser: Browser, tmp_path: Path) -> None:
    """Four offsets are in sight: a follower ends before them, later the old leader ends after them."""
    page = tmp_path / "page.html"
    runs = [bundled_run("acks1-leader-kill", variant=variant) for variant in (None, "acks-0")]
    page.write_text(page_of(runs), encoding="utf-8")
    of_lanes = """(all) => all.map((lane) => [lane.querySelectorAll(".flag.leo").length,
        [...lane.querySelectorAll("text")].filter((one) => one.textContent === "\u2026").length,
        lane.querySelector(".flag-text.leo").textContent])"""
    with driven(browser, page.as_uri() + f"#t=10.6&e=-1&r=0&p=0{mode}", 330, 800) as shown:
        first = shown.page.locator("svg.stage").first.locator("g.lane.broker")
        assert first.evaluate_all(of_lanes) == [[1, 1, "LEO 15"], [0, 1, "LEO 10"], [0, 1, "LEO 10"]]
        shown.page.evaluate(f"location.hash = '#t=19.6&e=-1&r=0&p=0{mode}'")
        shown.settle()
        assert first.evaluate_all(of_lanes) == [[0, 2, "LEO 15"], [1, 1, "LEO 10"], [1, 1, "LEO 10"]]
