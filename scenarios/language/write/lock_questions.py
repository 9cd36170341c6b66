"""The `questions` block back to plain data."""

from __future__ import annotations

from scenarios.language.questions import AnswerFromTrace, ScenarioQuestion
from scenarios.language.values.trees import Tree, given, time_text


def question_tree(question: ScenarioQuestion) -> Tree:
    return given(
        {
            "at": None if question.at_us is None else time_text(question.at_us),
            "before": question.before,
            "ask": question.ask,
            "choices": list(question.choices) or None,
            "answer": question.answer,
            "answer_from": None if question.answer_from is None else _answer_tree(question.answer_from),
            "because": question.because,
        }
    )


def _answer_tree(answer: AnswerFromTrace) -> Tree:
    by = None if answer.by_us is None else time_text(answer.by_us)
    return given({answer.kind: answer.of, "by": by})
