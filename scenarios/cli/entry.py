"""The command's first instants, in which its modules are imported: Ctrl-C ends it then as at any later time."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Imports the command, and runs it. Nothing else is imported before the block that catches KeyboardInterrupt."""
    try:
        from scenarios.cli.main import main as command

        command()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)  # ExitCode.INTERRUPTED: its module may be what could not be imported.
