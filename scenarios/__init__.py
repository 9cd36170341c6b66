"""The scenario language, the runner, faults, checker, verdicts, and the `highwater` command."""
