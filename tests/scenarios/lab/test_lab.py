"""The verdict on right, wrong and cheating answers."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import pytest

from scenarios.lab import hand_in
from scenarios.lab.exercise import Draw, Judgement, SheetExercise, exercises, lost
from scenarios.lab.hand_in import (
    BYTES_MAX,
    AnswerForm,
    BadName,
    checked_name,
    is_same,
    meaning,
    read_answers,
    read_hand_in,
)
from scenarios.lab.sandbox import EVENTS_MAX, Sandbox, TooMuch
from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.language.parse.catalogue import bundled
from scenarios.language.parse.loading import load_text
from tests.soak import one_in

ADA, BOB = "Ada Lovelace", "Bob"
EXERCISES = exercises()
DRAWN_FOR_ANOTHER = "predict-run.yaml was made for another name"
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


def smallest_of(student: str) -> tuple[int, int]:
    """Return the replication factor and the minimum that are the answer to the student's story."""
    answers = {"one": (2, 1), "two": (3, 1), "alone": (3, 2)}
    return answers[Draw("smallest", student).one_of(tuple(answers), "story")]


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
            return shape(*smallest_of(ADA))
    return filled(name)


@pytest.mark.parametrize(
    ("line", "student"), [("#student:\tAda  Lovelace \t", "Ada Lovelace"), (f"# student: a{' ' * 400_000}b", "a b")]
)
def test_a_name_is_read_in_one_look(line: str, student: str) -> None:
    assert hand_in._student(f"# Lab\n{line}\n") == student


@pytest.mark.soak
@pytest.mark.parametrize("name", one_in(3, list(EXERCISES)))
def test_a_right_answer_is_complete_and_costs_little(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two cores plays some 15,000 events in a second."""
    spent: list[Sandbox] = []
    monkeypatch.setattr(Sandbox, "__init__", lambda self: (setattr(self, "spent", 0), spent.append(self))[0])
    judgement = judge(name, right(name))
    assert judgement.passed and len(judgement.criteria) >= 4
    assert sum(sandbox.spent for sandbox in spent) < 12_000


@pytest.mark.soak
@pytest.mark.parametrize("student", one_in(4, ["Ben", "Anna & Ben", "Eve", "Li Wei", "Max", "Mia & Tom", "Kim", "Zoë"]))
def test_whatever_a_student_is_called_the_smallest_configuration_passes(student: str) -> None:
    assert missing("smallest", shape(*smallest_of(student), student)) == []


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


@pytest.mark.soak
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
    "too large": ("smallest", shape(4, smallest_of(ADA)[1]), ["smallest"]),
    "no faults": ("smallest", "\n".join(line for line in shape(1, 1).splitlines() if "  - {at" not in line), ["given"]),
}


@pytest.mark.soak
@pytest.mark.parametrize("cheat", one_in(5, CHEATS))
def test_a_cheat_is_seen(cheat: str) -> None:
    name, text, wanted = CHEATS[cheat]
    assert missing(name, text) == wanted


SPELLINGS = {
    (AnswerForm.RECORDS, "r21..r25"): (
        "r21..r25", "r21-r25", "21..25", "R21…R25", "r21 – r25", "r21—25", "21 - 25", "21..r25", "r21...r25",
        "21 to 25",
        "r25, r24, r23, r22, r21", "r21 r22 r23 r24 r25", "21,22,23,24,25", "r21; r22; r23..r25",
        "r21-r23, r24 and r25",
        "{r21, r22, r23, r24, r25}", "[21..25]", "records 21 to 25", "Records: R21 - R25", "the records r21..r25",
        "from r21 up to r25", "r25..r21", "r21..r25.", "r021..r025", "r21..r24, r23..r25", "  r21 ..  r25 ",
        "ｒ２１..ｒ２５", "r21\u2011r25", "r21~r25", "(r21..r25)", "r21 & r22 & r23-r25", "`r21..r25`",
        "r21 → r25", "r21->r25", "r 21 - r 25", "“r21..r25”", "r21/r22/r23/r24/r25", "5 records: r21..r25",
        "21 22 23 24 25",
    ),
    (AnswerForm.RECORDS, "none"): (
        "none", "None", "NONE", "0 records", "no records", "no record", "nothing", "0", "zero", "none of them", "∅",
        "no record is lost", "none are lost", "none.", "0 acked records",
        "No records.", "zero records", "no record was lost",
    ),
    (AnswerForm.RECORDS, "r7"): (
        "r7", "R7", "7", "record 7", "record r7", "r07", "r7..r7", "the record r7", "record seven",
    ),
    (AnswerForm.RECORDS, "r2..r4"): ("two to four", "two, three and four", "r2 to r4"),
    (AnswerForm.COUNT, "0"): (
        "0", "0.0", "none", "no records", "0 records", "zero", "nothing", "no record is lost", "00", "Zero records",
    ),
    (AnswerForm.COUNT, "1"): ("1", "one", "One record", "one is lost", "one acked record was lost"),
    (AnswerForm.COUNT, "7"): (
        "7", "7 records", "7 records are lost", " 7 ", "7.", "7 acked records", "７", "seven", "SEVEN records",
    ),
    (AnswerForm.COUNT, "20"): ("20", "twenty", "Twenty records were lost."),
    (AnswerForm.OFFSET, "17"): (
        "17", "17.0", "offset 17", "Offset 17", "017", "17.", "to 17", "back to 17", "at 17", "the LEO 17", "seventeen",
        "back to offset seventeen",
    ),
    (AnswerForm.BROKER, "b2"): (
        "b2", "B2", "2", "broker 2", "Broker b2", "b-2", "b 2", "b2.", "'b2'", "node b2", "leader b2",
        "the new leader is b2", "b2 leads", "broker two", "two",
    ),
    (AnswerForm.MOMENT, "12.345"): (
        "12.3", "12.3s", "12.3 s", "12,3", "at 12.3 s", "12300ms", "12.8", "0:12.3", "twelve seconds",
    ),
}  # fmt: skip
OTHER_ANSWERS = {
    (AnswerForm.RECORDS, "r21..r25"): (
        "r21..r24", "r21..r26", "r21, r25", "r20..r25", "5 records", "5", "none", "s21..s25", "r21..s25", "all",
        "r21..",
        "..r25", "r21..r25, r99", "r0..r9999999", "r", "-", "?", "r21..r25 or none", "r-21..r-25", "21.5",
    ),
    (AnswerForm.RECORDS, "none"): ("r0", "r0..r9", "some", "1 record", "10 records"),
    (AnswerForm.RECORDS, "r1..r20"): ("twenty-one", "twenty one"),
    (AnswerForm.COUNT, "0"): ("1", "r0", "-0.1", "10", "few", "none or 1", "one", "no one", "sieben"),
    (AnswerForm.COUNT, "1"): ("twenty-one", "twenty one", "one hundred", "minus one", "one or two", "someone", "eins"),
    (AnswerForm.COUNT, "7"): ("6", "8", "70", "r7", "r0..r6", "none", "7 or 8", "-7", "sieben"),
    (AnswerForm.COUNT, "20"): ("twenty-one", "twenty one", "twentyone"),
    (AnswerForm.OFFSET, "17"): ("16", "18", "none", "r17", "17..18"),
    (AnswerForm.BROKER, "b2"): ("b1", "b22", "none", "c2", "b2, b3", "2 or 3", "the leader", "b2 leads not"),
    (AnswerForm.MOMENT, "12.345"): ("11.8", "12.9", "12.3 h", "none", "1e1", "nan", "inf", "12.3..12.4"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "right"), SPELLINGS)
def test_a_right_answer_is_right_in_each_of_its_spellings(kind: AnswerForm, right: str) -> None:
    assert [said for said in SPELLINGS[kind, right] if not is_same(kind, said, right)] == []


@pytest.mark.parametrize(("kind", "right"), OTHER_ANSWERS)
def test_another_answer_is_wrong_in_each_of_its_spellings(kind: AnswerForm, right: str) -> None:
    assert [said for said in OTHER_ANSWERS[kind, right] if is_same(kind, said, right)] == []


@pytest.mark.parametrize("long", ["r" * 30_000, "1" * 30_000, "r1," * 10_000, " " * 30_000 + "r1", "r1.." * 8000])
def test_a_long_answer_is_read_in_one_look(long: str) -> None:
    for kind in AnswerForm:
        assert meaning(kind, long) is None or kind is AnswerForm.RECORDS


@pytest.mark.parametrize(
    ("written", "right"),
    [("[r3, r4, R5]", "r3..r5"), ("{r3, r4, r5}", "r3..r5"), ("[]", "none"), ("\n    - r3\n    - 4..5", "r3..r5")],
)
def test_an_answer_may_be_a_list_of_yaml(written: str, right: str) -> None:
    text = f"# student: {ADA}\nanswers:\n  lost: {written}\n"
    Path("list.yaml").write_text(text)
    answers = read_answers(read_hand_in(Path("list.yaml")), ("lost",))
    assert is_same(AnswerForm.RECORDS, answers["lost"], right)


def test_an_answer_that_cannot_be_read_says_how_to_write_it() -> None:
    wrong = start("predict").replace("lost: ", "lost: the last ones ", 1).replace("leader: ", "leader: the second one ")
    wrong = wrong.replace("cut_to: ", "cut_to: r22 ")
    hints = {one.name: one.hint for one in judge("predict", wrong).criteria}
    assert hints["lost"] == "`the last ones` cannot be read: write records such as r3..r9, or none"
    assert hints["leader"] == "`the second one` cannot be read: write a broker such as b1"
    assert hints["cut_to"] == "`r22` is a record: write its offset, a number"


@pytest.mark.parametrize(("student", "hint"), [(ADA, "the run shows something else"), (BOB, DRAWN_FOR_ANOTHER)])
def test_a_sheet_beside_the_run_of_another_name_hears_of_it(student: str, hint: str) -> None:
    for name, text in EXERCISES["predict"].files(student).items():
        Path(name).write_text(text)
    wrong = start("predict").replace("cut_to: ", "cut_to: 999 ")
    hints = {one.name: one.hint for one in judge("predict", wrong).criteria}
    assert hints["cut_to"] == hint


def test_naming_every_record_is_no_prediction() -> None:
    text = right("predict").replace("lost: r", "lost: r0..r999999, r", 1)
    assert missing("predict", text) == ["lost"]


@pytest.mark.soak
@pytest.mark.soak
def test_a_rule_that_shows_a_half_hears_which_half_it_lacks() -> None:
    hints = {one.name: one.hint for one in judge("rule", rule("min.insync.replicas", KILLED_ONCE)).criteria}
    assert hints["protects"] == "p1 gets NOT_ENOUGH_REPLICAS: only with 0 of 3 seeds"


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


def test_what_a_student_is_given_to_predict_does_not_tell_the_end() -> None:
    for student in ("Ada", "Grace", "Kurt Gödel"):
        for text in EXERCISES["predict"].files(student).values():
            assert not re.search(r"verdict|expect:|title: .*lost", text)
    scenario = load_text(EXERCISES["predict"].files("Ada")["predict-run.yaml"], "given").scenario
    assert scenario.expect.verdict is None and lost(Sandbox().play(scenario, scenario.seed))


def test_no_two_of_a_class_have_the_same_run() -> None:
    starts = {EXERCISES["predict"].files(f"student {number}")["predict-run.yaml"] for number in range(40)}
    assert len(starts) > 36
