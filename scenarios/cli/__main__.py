"""`python -m scenarios.cli` is the `highwater` command."""

from scenarios.cli.entry import main

if __name__ == "__main__":
    main()
