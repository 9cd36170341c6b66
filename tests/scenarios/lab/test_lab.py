"""The verdict on right, wrong and cheating answers."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from scenarios.lab import hand_in
from scenarios.lab.exercise import Draw, Judgement, SheetExercise, exercises
from scenarios.lab.hand_in import BYTES_MAX, BadName, checked_name, read_hand_in
from scenarios.lab.sandbox import EVENTS_MAX, Sandbox, TooMuch
from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.language.parse.catalogue import bundled
from scenarios.language.parse.loading import load_text
from tests.soak import one_in

ADA, BOB = "Ada Lovelace", "Bob"
EXERCISES = exercises()
ALONE = """
  - {at: 10050ms, cut: {between: ["leader(T-0)", "followers(T-0)"]}, as: alone}
  - {at: 22050ms, KILL: "leader(T-0)", as: first}
  - {at: 23s, heal: alone}
  - {at: 45s, start: "@first"}"""
UNANSWERED = '\n  - {at: 12050ms, hold: {from: "leader(T-0)", to: p1, api: Produce, part: response}, for: 5s}'
SLOW_THEN_DEAD = """
  - {at: 12s, latency: {between: ["leader(T-0)", "followers(T-0)"], add: 400ms}}
  - {at: 14s, kill: "leader(T-0)"}"""


def start(name: str, student: str = ADA) -> str:
    return next(iter(EXERCISES[name].files(student).values()))


def with_timeline(name: str, steps: str, student: str = ADA) -> str:
    return start(name, student).replace(
        "timeline:\n", "timeline:" + steps.replace("T-0", f"{topic(name, student)}-0") + "\n"
    )


def topic(name: str, student: str = ADA) -> str:
    return Draw(name, student).topic()


def filled(name: str, student: str = ADA, of: str | None = None) -> str:
    """The sheet with the right answers. of: another student's"""
    exercise = EXERCISES[name]
    assert isinstance(exercise, SheetExercise)
    text = start(name, student)
    for answer, right in exercise.right_answers(of or student, Sandbox()).items():
        text = text.replace(f"  {answer}: ", f"  {answer}: {right} ", 1)
    return text


def shape(replicas: int, minimum: int, student: str = ADA) -> str:
    text = start("smallest", student).replace("replication_factor: 4", f"replication_factor: {replicas}")
    return text.replace("min.insync.replicas: 3", f"min.insync.replicas: {minimum}")


def rule(name: str, steps: str, *changes: tuple[str, str]) -> str:
    text = with_timeline("rule", steps).replace("# rule: min.insync.replicas", f"# rule: {name}")
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return text


def judge(name: str, text: str) -> Judgement:
    path = Path("answer.yaml")
    path.write_text(text, encoding="utf-8")
    return EXERCISES[name].judge(read_hand_in(path))


def missing(name: str, text: str) -> list[str]:
    return [criterion.name for criterion in judge(name, text).criteria if not criterion.holds]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


STORY = {"one": (2, 1), "two": (3, 1), "alone": (3, 2)}[Draw("smallest", ADA).one_of(("one", "two", "alone"), "story")]


@cache
def right(name: str) -> str:
    """The file of a student who has solved the exercise."""
    match name:
        case "loss":
            return with_timeline("loss", SLOW_THEN_DEAD)
        case "one-setting":
            return start("one-setting").replace("acks: 1", "acks: all")
        case "rule":
            return rule("min.insync.replicas", ALONE.replace("KILL", "power_off"))
        case "smallest":
            return shape(*STORY)
    return filled(name)


@pytest.mark.parametrize(
    ("line", "student"), [("#student:\tAda  Lovelace \t", "Ada Lovelace"), (f"# student: a{' ' * 400_000}b", "a b")]
)
def test_a_name_is_read_in_one_look(line: str, student: str) -> None:
    assert hand_in._student(f"# Lab\n{line}\n") == student


@pytest.mark.parametrize("name", list(EXERCISES))
def test_a_right_answer_is_complete_and_costs_little(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two cores plays some 15,000 events in a second."""
    spent: list[Sandbox] = []
    monkeypatch.setattr(Sandbox, "__init__", lambda self: (setattr(self, "spent", 0), spent.append(self))[0])
    judgement = judge(name, right(name))
    assert judgement.passed and len(judgement.criteria) >= 4
    assert sum(sandbox.spent for sandbox in spent) < 12_000


@pytest.mark.parametrize("name", one_in(3, EXERCISES))
def test_the_file_as_it_was_handed_out_is_no_answer(name: str) -> None:
    assert not judge(name, start(name)).passed


@pytest.mark.parametrize("name", one_in(3, EXERCISES))
def test_the_answer_of_another_student_is_no_answer(name: str) -> None:
    assert not judge(name, right(name).replace(ADA, BOB)).passed


@pytest.mark.parametrize("name", one_in(2, [name for name in EXERCISES if name not in ("predict", "explain")]))
def test_another_file_under_the_right_name_is_no_answer(name: str) -> None:
    other = right("loss" if name != "loss" else "rule")
    for text in (other, bundled()["acks1-leader-kill"].read_text(encoding="utf-8")):
        assert missing(name, text) == ["given"]
        assert missing(name, text.replace("schema: 1", f"# student: {ADA}\nschema: 1", 1)) == ["given"]


@pytest.mark.parametrize("chosen", one_in(2, ["unclean.leader.election.enable", "enable.idempotence"]))
def test_each_rule_can_be_shown(chosen: str) -> None:
    text = {
        "unclean.leader.election.enable": lambda: rule(
            chosen, ALONE.replace("KILL", "kill"), ("min.insync.replicas: 2,", "min.insync.replicas: 1,")
        ),
        "enable.idempotence": lambda: rule(chosen, UNANSWERED),
    }[chosen]()
    assert missing("rule", text) == []


EXPECTS = "\nexpect: {verdict: [lost], records: {lost: {at_least: r10..r20}}}\n"
KILLED_ONCE = '\n  - {at: 14s, kill: "leader(T-0)"}'
ALL_DEAD = SLOW_THEN_DEAD + '\n  - {at: 20s, kill: "brokers"}'
LOST_DISK = "\n  - {at: 14s, kill: b1}\n  - {at: 15s, wipe: b1}\n  - {at: 16s, start: b1}"
NOT_PLAYED_BY_HAND = "\n  - {at: 14s, every: 1ms, times: 2000, kill: b1}"
SET_ASIDE = "\n  - {at: 6s, set_config: {topic: T-0, config: {min.insync.replicas: 1}}}"
NOTHING_PROMISED = start("one-setting").replace("acks: 1", "acks: 0")
CHEATS = {
    "an `expect` that is not kept": ("loss", with_timeline("loss", KILLED_ONCE) + EXPECTS, ["lost"]),
    "nothing but an `expect`": ("loss", start("loss") + EXPECTS, ["steps"]),
    "acks=0 in the given producer": ("loss", right("loss").replace("acks: 1", "acks: 0"), ["given"]),
    "other rules of Kafka": ("loss", right("loss") + "protocol: {hw-min-isr: false}\n", ["valid"]),
    "an older Kafka": ("loss", right("loss") + "profile: kafka-2.0\n", ["given"]),
    "everything broken for good": ("loss", with_timeline("loss", ALL_DEAD), ["alive"]),
    "a disk thrown away": ("loss", with_timeline("loss", LOST_DISK), ["faults"]),
    "too many steps": ("loss", with_timeline("loss", KILLED_ONCE * 5), ["steps"]),
    "steps without end": ("loss", with_timeline("loss", NOT_PLAYED_BY_HAND), ["bounds"]),
    "nothing promised": ("one-setting", NOTHING_PROMISED, ["kept", "told", "in-time"]),
    "two settings": (
        "one-setting",
        right("one-setting").replace("min.insync.replicas: 1", "min.insync.replicas: 2"),
        ["one"],
    ),
    "fewer records": ("one-setting", right("one-setting").replace("rate: 4/s", "rate: 1/s"), ["given"]),
    "a rule that makes no difference": ("rule", rule("min.insync.replicas", KILLED_ONCE), ["protects", "hurts"]),
    "a rule that is set aside": (
        "rule",
        rule("min.insync.replicas", ALONE.replace("KILL", "power_off") + SET_ASIDE.replace("T-0", topic("rule"))),
        ["protects"],
    ),
    "a rule of one's own": ("rule", rule("retries", KILLED_ONCE), ["rule"]),
    "a directory": (
        "rule",
        right("rule").replace("config: {replica.lag", 'config: {log.dirs: "../../out,d2", replica.lag'),
        ["valid"],
    ),
    "an hour": ("rule", right("rule").replace("duration: 50s", "duration: 60m"), ["bounds"]),
    "a crowd of records": (
        "rule",
        rule("min.insync.replicas", "\n  - {at: 9s, produce: {from: p1, count: 100000}}"),
        ["bounds"],
    ),
    "too large": ("smallest", shape(4, STORY[1]), ["smallest"]),
    "no faults": ("smallest", "\n".join(line for line in shape(1, 1).splitlines() if "  - {at" not in line), ["given"]),
}


@pytest.mark.parametrize("cheat", one_in(5, CHEATS))
def test_a_cheat_is_seen(cheat: str) -> None:
    name, text, wanted = CHEATS[cheat]
    assert missing(name, text) == wanted


def test_naming_every_record_is_no_prediction() -> None:
    text = right("predict").replace("lost: r", "lost: r0..r999999, r", 1)
    assert missing("predict", text) == ["lost"]


def test_a_hint_does_not_give_the_answer_away() -> None:
    exercise = EXERCISES["predict"]
    assert isinstance(exercise, SheetExercise)
    wrong = start("predict").replace("cut_to: ", "cut_to: 7 ").replace("lost: ", "lost: r3 ", 1)
    said = " ".join(f"{one.sentence} {one.hint}" for one in judge("predict", wrong).criteria)
    answers = exercise.right_answers(ADA, Sandbox())
    assert answers["lost"] not in said and answers["cut_to"] not in said.split()


def test_what_is_no_answer_is_refused_unread() -> None:
    os.mkfifo("pipe.yaml")
    Path("large.yaml").write_text("#" * (BYTES_MAX + 1))
    for name in ("pipe.yaml", "large.yaml", "none.yaml", "."):
        with pytest.raises(ScenarioInvalid):
            read_hand_in(Path(name))


def test_runs_of_one_check_share_a_bound() -> None:
    scenario = load_text(right("loss"), "loss.yaml").scenario
    sandbox = Sandbox(EVENTS_MAX - 1000)
    with pytest.raises(TooMuch):
        sandbox.play(scenario, 1)


def test_a_name_is_one_line_that_can_be_shown() -> None:
    assert checked_name("  Zoë   Müller ") == "Zoë Müller"
    for name in ("x" * 61, "a\x1b[31m", "a\u202eb", "=1+1"):
        with pytest.raises(BadName):
            checked_name(name)


def test_no_two_of_a_class_have_the_same_run() -> None:
    starts = {EXERCISES["predict"].files(f"student {number}")["predict-run.yaml"] for number in range(40)}
    assert len(starts) > 36
