"""The bundled scenarios and the commands that show them; no run here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml
from click.testing import CliRunner, Result
from scenario_schema import schema

from scenarios.cli.catalogue import story
from scenarios.cli.main import cli
from scenarios.language.parse import catalogue
from scenarios.language.parse.catalogue import read_outline
from scenarios.language.parse.loading import FIELDS, load_text
from scenarios.language.write.lock import as_tree, dump
from tests.catalogue import bundled_file
from tests.soak import one_in

IDS = list(catalogue.bundled())
REQUIRED = {
    "acks0-connection-reset",
    "acks1-leader-kill",
    "acks1-leader-power-off",
    "all-replicas-power-off",
    "min-isr-1-trap",
    "min-isr-equals-rf",
    "follower-cut-hw-stall",
    "unclean-election",
    "retry-duplicates-lost-ack",
    "stale-hw-after-failover",
    "zombie-leader-acks1",
    "leader-isolated-from-followers",
}
SCHEMA = json.loads(json.dumps(schema()))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The same as `yaml.safe_load`, in C where there is one."""


@pytest.fixture(scope="module", autouse=True)
def _outlines_once() -> Iterator[None]:
    """Read the outlines of all files once, and not for each command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "read_outline", cache(read_outline))
        yield


def call(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), standalone_mode=False, catch_exceptions=False)


def test_the_library_is_complete() -> None:
    assert set(IDS) >= REQUIRED


@pytest.mark.parametrize("name", one_in(12, IDS))
def test_a_bundled_scenario(name: str) -> None:
    """It loads, opens with events to watch, cites sources, expects something, has a contrast, and survives the lock."""
    file = bundled_file(name)
    assert file.scenario.id == name
    assert len(story(file.text)) > 100
    assert file.scenario.question
    assert file.scenario.sources
    assert file.variants
    for scenario in file.all:
        assert scenario.expect.verdict is not None
        again = load_text(dump(scenario), "scenario.lock.yaml").scenario
        assert again == scenario
        assert dump(again) == dump(scenario)


@pytest.mark.parametrize("name", one_in(12, IDS))
def test_the_json_schema_accepts_what_we_accept(name: str) -> None:
    file = bundled_file(name)
    for document in (yaml.load(file.text, SAFE_LOADER), *(as_tree(scenario) for scenario in file.all)):
        errors = [error.message for error in VALIDATOR.iter_errors(json.loads(json.dumps(document)))]
        assert errors == []


def test_the_json_schema_is_up_to_date(request: pytest.FixtureRequest) -> None:
    """`pytest --rewrite` writes it anew."""
    wanted = json.dumps(schema(), indent=1) + "\n"
    if request.config.getoption("--rewrite"):
        catalogue.SCHEMA_FILE.write_text(wanted)
    assert catalogue.SCHEMA_FILE.read_text() == wanted


def test_the_json_schema_refuses_what_is_no_scenario() -> None:
    assert set(SCHEMA["properties"]) == {*FIELDS, "variants"}
    refused: list[dict[str, Any]] = [
        {"schema": 2},
        {"id": "Not A Slug"},
        {"topics": {"../x": {"partitions": 1}}},
        {"timelines": []},
    ]
    base = yaml.safe_load(catalogue.find_scenario(IDS[0]).read_text())
    for change in refused:
        assert not VALIDATOR.is_valid({**base, **change})


def test_the_example_of_the_reference_is_a_scenario() -> None:
    text = (Path(catalogue.__file__).parents[2] / "LANGUAGE.md").read_text()
    example = re.search(r"```yaml\n(schema: 1\n.*?)```", text, re.DOTALL)
    assert example is not None
    assert load_text(example[1], "LANGUAGE.md").warnings == ()


def test_find_by_id_path_and_wrong_name(tmp_path: Path) -> None:
    assert catalogue.find_scenario("acks1-leader-kill").name == "acks1-leader-kill.yaml"
    mine = tmp_path / "mine.yaml"
    assert catalogue.find_scenario(str(mine)) == mine
    with pytest.raises(catalogue.UnknownScenario, match="Did you mean `acks1-leader-kill`"):
        catalogue.find_scenario("ack1-leader-kil")
    with pytest.raises(catalogue.UnknownScenario, match="run `highwater list unclean leader`"):
        catalogue.find_scenario("unclean leader")


# ----------------------------------------------------------------------------------------------------------- commands


@pytest.mark.soak
def test_list_groups_by_lesson() -> None:
    screen = call("list", "--plain").output
    assert screen.index("LESSON 1") < screen.index("\n  acks1-leader-kill") < screen.index("LESSON 2")
    assert all(name in screen for name in IDS)
    assert max(map(len, screen.splitlines())) <= 120
    document = json.loads(call("list", "--format", "json").output)
    assert sorted(entry["id"] for entry in document["scenarios"]) == IDS
    tagged = json.loads(call("list", "--format", "json", "--tag", "disk").output)
    found = {entry["id"] for entry in tagged["scenarios"]}
    assert found >= {"acks1-leader-power-off", "all-replicas-power-off"}
    assert found == {name for name in IDS if "disk" in bundled_file(name).scenario.tags}


@pytest.mark.parametrize(
    ("words", "found", "line"),
    [
        (["power strip"], {"rack-failure"}, "title"),
        (["ISR-BY-messages"], {"burst-isr-by-messages"}, "name"),
        (["fsync matter"], {"acks1-leader-power-off"}, "question"),
        (["rack=C"], {"rack-failure"}, "setting rack=C"),
        (["bitflip"], {"bitflip-mid-log", "bitflip-on-last-leader"}, "name, verb bitflip"),
        (["KIP-853"], {"kraft-voter-replaced"}, "source KIP-853: KRaft Controller Membership Changes"),
        (["duplicated"], {"retry-duplicates-lost-ack"}, "verdict duplicated"),
        (["bitflip", "mid log"], {"bitflip-mid-log"}, "bitflip: name, verb bitflip"),
        (["KIP 101"], {"kip101-replica-divergence"}, "name"),
        (["delivery.timeout"], {"elr-switched-on"}, "setting delivery.timeout.ms"),
    ],
)
def test_list_finds_words_and_says_where(words: list[str], found: set[str], line: str) -> None:
    screen = call("list", "--plain", *words).output
    assert line in screen
    document = json.loads(call("list", "--format", "json", *words).output)
    assert {entry["id"] for entry in document["scenarios"]} >= found
    assert all(entry["matches"][word] for entry in document["scenarios"] for word in " ".join(words).split())
    assert "BEGIN WITH" not in screen


@pytest.mark.soak
def test_list_finds_each_verb_that_a_scenario_or_a_variant_has() -> None:
    for outline in (read_outline(path) for path in catalogue.bundled().values()):
        file = bundled_file(outline.id)
        assert set(outline.verbs) == {step.verb for one in file.all for step in one.timeline}, outline.id


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["zebra"], "has `zebra` in a title, a question, a setting, a verb or a source. To search by symptom: "),
        (["lso"], "Try `read_committed` instead."),
        (
            ["messages appear twice"],
            "has `appear` in a title, a question, a setting, a verb or a source. Try only `messages` or `twice`",
        ),
        (["throtle"], "Did you mean `throttle`?"),
        (["wipes"], "Try `wipe` instead."),
        (["sigstop"], "Try `pause` instead."),
        (["records", "vanished"], "Try `lost` instead."),
        (
            ["bitflip", "transform"],
            "No scenario has all of these words: bitflip, transform. Try fewer words. To search by symptom: ",
        ),
    ],
)
def test_list_says_which_word_it_does_not_find(words: list[str], hint: str) -> None:
    with pytest.raises(click.UsageError, match=re.escape(hint)):
        call("list", *words)


@pytest.mark.parametrize("name", one_in(12, IDS))
def test_show_tells_the_story(name: str) -> None:
    file = bundled_file(name)
    screen = call("show", name, "--plain").output
    assert file.scenario.title in screen
    assert all(variant in screen for variant in file.variants)
    assert call("show", name, "--yaml").output == file.text
    document = json.loads(call("show", name, "--format", "json").output)
    assert [entry.get("variant") for entry in document["scenarios"]] == [None, *file.variants]


def test_check_formats_and_exit_codes(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("schema: 1\nid: bad\n")
    good = call("check", "acks1-leader-kill")
    assert (good.return_value, "is valid: 6 steps, 2 variants." in good.output) == (0, True)
    text = call("check", str(bad), "acks1-leader-kill")
    assert text.return_value == 3
    assert "error[E105]" in text.output
    document = json.loads(call("check", "--format", "json", str(bad), "acks1-leader-kill").output)
    assert [file["valid"] for file in document["files"]] == [False, True]
    assert call("check", "--format", "github", str(bad)).output.startswith("::error file=")
    assert json.loads(call("check", "--schema").output) == SCHEMA


def test_list_and_check_load_nothing_heavy() -> None:
    heavy = ("trio", "pyarrow", "pandas", "numpy", "networkx", "kio", "pyspark", "altair", "jinja2")
    program = (
        "import sys; from click.testing import CliRunner; from scenarios.cli.main import cli\n"
        "for words in (['list'], ['show', 'unclean-election'], ['check', 'unclean-election']):\n"
        "    assert CliRunner().invoke(cli, words, standalone_mode=False).exception is None\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", one_in(12, IDS))
def test_the_table_of_contents_says_what_the_loaded_file_says(name):
    path = catalogue.find_scenario(name)
    outline, file = read_outline(path), bundled_file(name)
    scenario = file.scenario
    assert outline.path == file.path
    assert (outline.id, outline.title, outline.question) == (scenario.id, scenario.title, scenario.question)
    assert (outline.lesson, outline.tags, outline.profile) == (scenario.lesson, scenario.tags, scenario.profile)
    assert [(run.id, run.title, run.verdict) for run in outline.all] == [
        (run.variant or "base", run.title, run.expect.verdict) for run in file.all
    ]
