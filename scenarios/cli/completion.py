"""`highwater completion SHELL`, and the functions that complete names of scenarios and runs."""

from __future__ import annotations

from pathlib import Path

import click

from scenarios.terminal.interruption import ExitCode

WHERE = {
    "bash": 'eval "$(highwater completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(highwater completion zsh)"   in ~/.zshrc',
    "fish": "highwater completion fish > ~/.config/fish/completions/highwater.fish",
}


@click.command(epilog="\b\n" + "\n".join(WHERE.values()))
@click.argument("shell", type=click.Choice(list(WHERE)))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print a script that makes SHELL complete commands, options, scenarios and runs."""
    from click.shell_completion import get_completion_class

    made_for = get_completion_class(shell)
    assert made_for is not None
    script = made_for(context.find_root().command, {}, "highwater", "_HIGHWATER_COMPLETE")
    click.echo(script.source_template % script.source_vars())
    return ExitCode.HELD


def scenario_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a bundled scenario, or of a YAML file in the current folder."""
    from scenarios.language.parse.catalogue import bundled

    names = [*bundled(), *sorted(path.name for path in Path().glob("*.yaml"))]
    return [name for name in names if name.startswith(incomplete)]


def run_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete `last` or the name of a run in `runs/`, the newest first."""
    from scenarios.run.runs import list_runs

    names = ["last", *(run.name for run in reversed(list_runs()))]
    return [name for name in names if name.startswith(incomplete)]
