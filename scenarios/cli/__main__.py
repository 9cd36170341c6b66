"""`python -m scenarios.cli` is the `highwater` command."""

from scenarios.cli.main import main

if __name__ == "__main__":
    main()
