"""Topics that members subscribe to by a regular expression (KIP-848): RE2's, which takes linear time on any input.

Kafka evaluates them with RE2/J. Simple ones (topic_pattern.py) need no such library; for others the module is imported
when the first one comes.
source: GroupMetadataManager.throwIfRegularExpressionIsInvalid, refreshRegularExpressions
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from cluster.topic_pattern import TopicPattern
from replica.errors import ErrorCode, KafkaError
from replica.wording import shown

PATTERNS_MAX = 1024
"""Compiled patterns that are kept."""


def check_pattern(pattern: str) -> None:
    """raises: KafkaError"""
    try:
        _compiled(pattern)
    except ImportError:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            "this broker evaluates such a pattern with google-re2, which is not installed: pip install google-re2",
        ) from None
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{shown(pattern)}` is not a valid regular expression: {shown(str(error))}.",
        ) from None


def matching(pattern: str, topics: Iterable[str]) -> list[str]:
    """Those that the pattern describes from their first letter to their last."""
    try:
        describes = _compiled(pattern)
    except (ImportError, ValueError):
        return []  # Another broker took it, and this one cannot read it.
    return [topic for topic in topics if describes(topic)]


@lru_cache(maxsize=PATTERNS_MAX)
def _compiled(pattern: str) -> Callable[[str], bool]:
    """raises: ImportError; ValueError for what is no pattern"""
    try:
        # A name matches from end to end, so anchors say nothing more; librdkafka marks every pattern with one.
        return TopicPattern(pattern.removeprefix("^").removesuffix("$")).matches
    except ValueError:
        return _compiled_by_re2(pattern)


def _compiled_by_re2(pattern: str) -> Callable[[str], bool]:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        found = re2.compile(pattern, options)
    except re2.error as error:
        (why,) = error.args
        raise ValueError(why.decode("utf-8", "replace")) from None

    def describes(topic: str) -> bool:
        return found.fullmatch(topic) is not None

    return describes
