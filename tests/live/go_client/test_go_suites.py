"""Test suites of Kafka clients in Go against a live cluster: go_suites.toml says what is run, and what is not."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from serving import ROOT, free_ports, serving
from waiting import wait_for

pytestmark = [pytest.mark.live, pytest.mark.soak, pytest.mark.timeout(2500)]

SUITES: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("go_suites.toml").read_text())
TOXIPROXY = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.5.0"
GO = os.environ.get("HIGHWATER_GO") or shutil.which("go")
HAS_MODULES = bool(os.environ.get("HIGHWATER_GO_CLIENT"))
"""Whether the client in Go could be built, for which modules were downloaded."""
BUILD_S, SUITE_S = 600, 800
"""How long a suite may take to build, and to run."""


def go(*words: str, cwd: Path, **environment: str) -> str:
    assert GO is not None
    done = subprocess.run(
        [GO, *words], cwd=cwd, capture_output=True, text=True, timeout=BUILD_S,
        env={**os.environ, "GOFLAGS": "-mod=mod", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def built(suite: Mapping[str, Any], folder: Path, port: int) -> Path:
    """The binary with a suite's tests, in a copy of its sources."""
    found = json.loads(go("mod", "download", "-json", suite["module"], cwd=folder, GOFLAGS=""))
    sources = folder / "sources"
    shutil.copytree(found["Dir"], sources, copy_function=shutil.copyfile)
    for directory in [sources, *(path for path in sources.rglob("*") if path.is_dir())]:
        directory.chmod(0o755)
    for before, after in suite.get("edits", {}).items():
        for file in sources.rglob("*.go"):
            text = file.read_text()
            if before in text:
                file.write_text(text.replace(before, after.format(port=port)))
    package = sources / suite["package"]
    go("test", "-c", "-tags", suite.get("tags", ""), "-o", "suite.test", ".", cwd=package)
    return package / "suite.test"


def tagged(package: Path, tag: str) -> list[str]:
    """The tests in files with a build tag: the others need no cluster."""
    texts = [file.read_text() for file in sorted(package.glob("*_test.go"))]
    names = [re.findall(r"^func (Test\w+)\(", text, re.MULTILINE) for text in texts if f"//go:build {tag}" in text]
    return [name for found in names for name in found if name != "TestMain"]


@contextlib.contextmanager
def proxies(first: int | None, brokers: Sequence[str], folder: Path, port: int) -> Iterator[None]:
    """Toxiproxy before the brokers, from the port `first` on; None: the suite does without. port: to speak with it"""
    if first is None:
        yield
        return
    go("install", TOXIPROXY, cwd=folder, GOBIN=str(folder))
    with subprocess.Popen(
        [folder / "server", "-host", "127.0.0.1", "-port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            own = f"http://127.0.0.1:{port}/proxies"

            def answers() -> bool:
                with contextlib.suppress(OSError):
                    return bool(urllib.request.urlopen(own, timeout=5).status == 200)
                return False

            wait_for(answers)
            for place, broker in enumerate(brokers):
                wish = {"name": f"kafka{place + 1}", "listen": f"127.0.0.1:{first + place}", "upstream": broker}
                urllib.request.urlopen(own, json.dumps(wish).encode(), timeout=5).close()
            yield
        finally:
            process.kill()


DOCKER = """\
#!/usr/bin/env bash
# docker compose stop|start kafka-N, which come back once that is so
case "$1 $2" in "compose stop" | "compose start") ;; *) echo "no docker here" >&2; exit 1 ;; esac
cd {record}
PYTHONPATH={root} {python} -m scenarios.cli fault --record {record} "$2" "b${{3#kafka-}}" || [ "$2" = start ] || exit 1
port=$(({port} - 1 + ${{3#kafka-}}))
for _ in {{1..300}}; do
    if (: < "/dev/tcp/127.0.0.1/$port") 2>/dev/null; then is=start; else is=stop; fi
    [ "$is" = "$2" ] && exit 0
    sleep 0.1
done
exit 1
"""
"""For a suite that has its brokers in containers."""


def docker(record: Path, folder: Path, port: int) -> str:
    """A PATH with it."""
    folder.mkdir()
    program = folder / "docker"
    program.write_text(DOCKER.format(record=record, root=ROOT, python=sys.executable, port=port))
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def outcomes(
    binary: Path, options: Sequence[str], environment: Mapping[str, str], output: Path
) -> tuple[dict[str, str], str]:
    """Run tests of a suite; return PASS, FAIL or SKIP of each, and all that was printed."""
    with output.open("w") as stream:
        subprocess.run(
            [str(binary), "-test.v", f"-test.timeout={SUITE_S}s", *options],
            cwd=binary.parent, stdout=stream, stderr=subprocess.STDOUT, env={**os.environ, **environment},
            timeout=SUITE_S + 30,
        )  # fmt: skip
    text = output.read_text(errors="replace")
    assert "panic: test timed out" not in text, text[-3000:]
    return {test: outcome for outcome, test in re.findall(r"^--- (PASS|FAIL|SKIP): (\S+)", text, re.MULTILINE)}, text


@pytest.mark.skipif(GO is None or not HAS_MODULES, reason="HIGHWATER_GO_CLIENT=PROGRAM, and Go, are not there")
@pytest.mark.parametrize("name", SUITES)
def test_the_suite_of_a_client_passes(tmp_path: Path, name: str) -> None:
    suite = SUITES[name]
    brokers = int(suite["serve"][suite["serve"].index("--brokers") + 1])
    port = free_ports(brokers + 1)
    other = port + brokers
    addresses = [f"127.0.0.1:{port + place}" for place in range(brokers)]
    binary = built(suite, tmp_path, port)
    chosen = [f"-test.run=^({'|'.join(tagged(binary.parent, suite['tags']))})$"] if "tags" in suite else []
    left_out = {**suite["left_out"], **suite["fails_on_kafka"]}
    skip = "|".join("/".join(f"^{part}$" for part in test.split("/")) for test in left_out)
    skipped = [f"-test.skip={skip}"] if skip else []
    record = tmp_path / "runs"
    record.mkdir()
    with (
        serving(record, *suite["serve"], "--port", str(port), brokers=brokers) as served,
        proxies(suite.get("proxies"), addresses, tmp_path, other),
    ):
        environment = {key: value.format(port=port, other=other) for key, value in suite["environment"].items()}
        environment["PATH"] = docker(record, tmp_path / "bin", port)
        results, text = outcomes(binary, [*chosen, *skipped], environment, tmp_path / "first")
        failed = [test for test, outcome in results.items() if outcome == "FAIL"]
        if failed:  # their own limits of time are short: what fails beside other work has to pass alone
            again, text = outcomes(
                binary, [f"-test.run=^({'|'.join(failed)})$", *skipped], environment, tmp_path / "again"
            )
            results |= again
        served.end()
    counts = Counter(results.values())
    print(
        f"{name}: {counts['PASS']} passed, {counts['SKIP']} skipped, at the second try: {', '.join(failed) or 'none'}"
    )
    failed = [test for test in failed if results[test] == "FAIL"]
    assert failed == [], f"{failed}\n{text[-3000:]}"
    assert counts["PASS"] >= suite["passed"]
    assert not served.summary["our_bug"] and served.summary["records"]["lost"] == []
