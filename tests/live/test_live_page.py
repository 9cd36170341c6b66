"""The page of a running cluster: it moves, and it answers no request but its own."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaProducer
from serving import Served, fault, serving

from tests.browser import needs_chromium
from tests.driven import chromium, driven

pytestmark = pytest.mark.live


@contextmanager
def shown(record: Path, *words: str) -> Iterator[tuple[Served, str]]:
    with serving(record, "--view", *words) as served:
        found = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", "\n".join(served.ready))
        assert found is not None
        yield served, found[0]


@needs_chromium
@pytest.mark.soak
@pytest.mark.parametrize("where", [[], ["--processes"]], ids=["one process", "a process for each node"])
def test_the_page_moves_as_things_happen(where: list[str], tmp_path: Path) -> None:
    with shown(tmp_path, "--topic", "orders:1:3", *where) as (served, address):
        with chromium() as browser, driven(browser, address) as page:
            page.page.wait_for_selector("svg.stage[aria-label*='b1 leads']", state="attached")
            producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks="all", enable_idempotence=False)
            for name in ("r1", "r2"):
                producer.send("orders", value=name.encode()).get(60)
            producer.close()
            page.page.wait_for_selector("svg.stage[aria-label*='b1 is the leader, LEO 2, HW 2']", state="attached")
            page.page.wait_for_selector(".cell[data-record] >> text=r2")
            fault(tmp_path, "kill", "b1")
            page.page.wait_for_selector("svg.stage[aria-label*='b1 is down']", state="attached")
            page.page.wait_for_selector("svg.stage[aria-label*='b2 leads']", state="attached")
        served.stop()
    assert served.summary["records"]["acked"] == ["r1", "r2"]


@needs_chromium
@pytest.mark.soak
def test_the_badge_counts_losses_as_they_happen(tmp_path: Path) -> None:
    with shown(tmp_path, "--topic", "orders:1:3") as (served, address):
        with chromium() as browser, driven(browser, address) as page:
            page.page.wait_for_selector("svg.stage[aria-label*='b1 leads']", state="attached")
            assert page.text(".pill") == "\u2713 running"
            producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks=1, enable_idempotence=False)
            producer.send("orders", value=b"kept").get(60)
            page.page.wait_for_selector("svg.stage[aria-label*='b3 is in the ISR, LEO 1']", state="attached")
            for other in ("b2", "b3"):
                fault(tmp_path, "cut", f"b1-{other}")
            for name in ("gone-1", "gone-2", "gone-3"):
                producer.send("orders", value=name.encode()).get(60)
            fault(tmp_path, "kill", "b1")
            page.page.wait_for_selector(".pill.bad >> text=\u2715 3 acked records gone")
            page.page.wait_for_selector(".end-sign.lost >> nth=2", state="attached")
            assert "3 acked records lost: orders-0 3" in fault(tmp_path, "list").stdout
            producer.close()
        served.stop()
    assert served.summary["records"]["lost"] == ["gone-1", "gone-2", "gone-3"]


def answer(port: int, request: bytes) -> bytes:
    """The first line of what comes back; empty where the connection was closed without a word."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        sock.sendall(request)
        found = b""
        while b"\r\n" not in found and (part := sock.recv(4_096)):
            found += part
    return found.partition(b"\r\n")[0].strip()


@pytest.mark.soak
def test_only_its_own_requests_are_answered(tmp_path: Path) -> None:
    with shown(tmp_path) as (served, address):
        port, token = re.findall(r":(\d+)/(.*)/", address)[0]
        port = int(port)
        own = f"Host: 127.0.0.1:{port}\r\n"

        def get(path: str = f"/{token}/", headers: str = own, method: str = "GET") -> bytes:
            return answer(port, f"{method} {path} HTTP/1.1\r\n{headers}\r\n".encode())

        assert get() == get(f"/{token}/events") == b"HTTP/1.1 200"
        assert get(headers=f"Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n") == b"HTTP/1.1 200"
        refused = {
            get("/"): b"404",
            get(f"/{token[:-1]}/"): b"404",
            get(f"/{token}/../etc/passwd"): b"404",
            get(f"//{token}/"): b"404",
            get(headers="Host: evil.example\r\n"): b"421",
            get(headers=f"{own}Origin: http://evil.example\r\n"): b"403",
            get(headers=f"{own}Origin: null\r\n"): b"403",
            get(headers=f"{own}Sec-Fetch-Site: cross-site\r\n"): b"403",
            get(headers=f"{own}Content-Length: 5\r\n"): b"400",
            get(headers=f"{own}X: {'x' * 100_000}\r\n"): b"431",
            get(method="POST"): b"405",
            get(method="OPTIONS"): b"405",
            answer(port, b"\x16\x03\x01 no HTTP at all\r\n\r\n"): b"400",
        }
        assert [status for status in refused if status.split()[-1] != refused[status]] == []
        for _ in range(40):  # More than are served at once, each gone in the middle of its request or of its feed.
            with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
                sock.sendall(f"GET /{token}/events HTTP/1.1\r\n{own}\r\n".encode())
        assert get() == b"HTTP/1.1 200"
        served.stop()
