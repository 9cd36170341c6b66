"""Runs the `highwater` command for `python -m scenarios.cli`."""

from scenarios.cli.entry import main

if __name__ == "__main__":
    main()
