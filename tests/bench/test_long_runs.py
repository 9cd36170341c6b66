"""`bench memory` says why one of its runs failed."""

from __future__ import annotations

import pytest

from tests.bench.long_runs import why_it_failed


@pytest.mark.parametrize(
    ("exit_code", "said", "why"),
    [
        (0, "a warning\n", ""),
        (1, "", "its verdict is not what it must be"),
        (6, "error: pyarrow is missing\n", "it ended with exit code 6: error: pyarrow is missing"),
        (4, "Traceback\nOSError: no space left\n", "an invariant broke, or the program failed: OSError: no space left"),
        (-9, "", "SIGKILL ended it, as where memory is short"),
        (-15, "\x1b[31mbad\n", "SIGTERM ended it: \\x1b[31mbad"),
    ],
)
def test_a_run_that_failed_says_why(exit_code: int, said: str, why: str) -> None:
    assert why_it_failed(exit_code, said) == why
