"""The entry point of the `highwater` command, which handles Ctrl-C even while the modules are imported."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Import and run the command. Ctrl-C ends it without a traceback, even during the imports."""
    try:
        from scenarios.cli.main import main as command

        command()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)  # The value of ExitCode.INTERRUPTED, whose module may not have been imported yet.
