"""`highwater fault`: injects faults into a running `highwater serve`, ends them, and lists those in force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scenarios.cli.common import fail, format_option, plain_option, print_json, style_for_stdout
from scenarios.language.diagnostics import printable
from scenarios.observe.wording import count_of
from scenarios.run.runs import RUNS_DIR
from scenarios.terminal.interruption import ExitCode
from scenarios.terminal.style import Style, table_lines

SHOWN_CLIENTS_MAX = 20
CODE_OF = {
    "words": ExitCode.USAGE,
    "request": ExitCode.USAGE,
    "step": ExitCode.INVALID_SCENARIO,
    "moment": ExitCode.EXPECTATION_FAILED,
}
HELP = """Inject faults into a running `highwater serve`, or end them, with the verbs and selectors of a scenario.

\b
  highwater fault kill b1                  start b1, stop b1, power_off b1
  highwater fault kill 'leader(orders-0)'  any selector of a scenario
  highwater fault pause b2 3s              undone after 3 s; or: resume b2
  highwater fault cut b1-b3                heal, or heal NAME with --as NAME
  highwater fault latency b1-b2 200ms      loss b1-b2 5%
  highwater fault bandwidth b1-b2 50kB/s
  highwater fault hold b2-b1 Fetch         release
  highwater fault cut client/rdkafka-b1    by its client.id (see list)
  highwater fault fail Produce NOT_LEADER_OR_FOLLOWER 3 after
  highwater fault slow_disk b1 200ms 10s   flush b1, fill_disk b1, wipe b1
  highwater fault elect orders-0 b1        or: elect orders-0 b1 unclean
  highwater fault set_config orders min.insync.replicas=1
  highwater fault reassign orders-0 b1,b2
  highwater fault reset_offsets billing orders earliest
  highwater fault delete_records orders-0  abort_transaction orders-0
  highwater fault --yaml '{cut: {between: [b1, b3], direction: to}, for: 3s}'
  highwater fault list                     faults in force, nodes, partitions
  highwater fault end slow_disk-4          end a fault by its name in the list
"""


@click.command(help=HELP, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, metavar="VERB [WORD]...")
@click.option("--for", "lasts", metavar="TIME", help="Undo the fault after this time, such as 3s.")
@click.option("--as", "label", metavar="NAME", help='Name for the fault, to use in `heal NAME` and "@name".')
@click.option("--yaml", "text", metavar="STEP", help="Step of a scenario's timeline in YAML, instead of words.")
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The --record folder of the `serve`; by default runs.",
)
@format_option
@plain_option
def fault(
    words: tuple[str, ...],
    lasts: str | None,
    label: str | None,
    text: str | None,
    record: Path | None,
    format_: str,
    plain: bool,
) -> int:
    from scenarios.serve.control_place import NoCluster, ask, find_cluster

    request = _request(words, lasts, label, text)
    try:
        answer = ask(find_cluster(record, RUNS_DIR), request)
    except NoCluster as missing:
        fail(printable(str(missing)), ExitCode.MISSING, printable(missing.fix))
    if format_ == "json":
        print_json(answer.get("state", answer))
    elif "state" in answer:
        click.echo("\n".join(map(printable_line, state_lines(answer["state"], style_for_stdout(plain)))))
    elif answer.get("ok"):
        name = f"{answer['fault']}: " if "fault" in answer else ""
        click.echo(printable(f"{name}{answer.get('what')}"))
        for warning in answer.get("warnings", ()):
            click.echo(printable(f"warning: {warning}"), err=True)
    else:
        _tell(answer)
    return ExitCode.HELD if answer.get("ok") else CODE_OF.get(str(answer.get("kind")), ExitCode.EXPECTATION_FAILED)


def _request(words: tuple[str, ...], lasts: str | None, label: str | None, text: str | None) -> dict[str, Any]:
    unknown = next((word for word in words if word.startswith("--")), None)
    if unknown is not None:
        raise click.NoSuchOption(unknown, possibilities=["--for", "--as", "--yaml", "--record", "--format", "--plain"])
    if text is not None:
        if words or lasts or label:
            raise click.UsageError(
                "--yaml takes the whole step: write `for` and `as` inside the YAML, and give no other arguments"
            )
        return {"yaml": text}
    if not words:
        raise click.UsageError(
            "name a fault, for example: highwater fault kill b1, or show faults: highwater fault list"
        )
    if words[0] == "list":
        if len(words) > 1:
            raise click.UsageError(f"`list` does not take `{words[1]}`")
        return {"list": True}
    if words[0] == "end":
        if len(words) != 2:
            raise click.UsageError("`end` takes the name of one fault; to see the names: highwater fault list")
        return {"end": words[1]}
    return {"words": list(words), "for": lasts, "as": label}


def _tell(answer: dict[str, Any]) -> None:
    lines = str(answer.get("error")).splitlines() or [""]
    if answer.get("kind") != "step":  # The diagnostics of a step already begin with `error`.
        lines[0] = f"error: {lines[0]}"
    if "fix" in answer:
        lines.append(f"  = fix: {answer['fix']}")
    click.echo("\n".join(map(printable, lines)), err=True)


def printable_line(line: str) -> str:
    """Return a line without unprintable characters. Escape sequences for colours are kept."""
    return "\x1b".join(printable(part) for part in line.split("\x1b"))


# ------------------------------------------------------------------------------------------------------------ screen


def state_lines(state: dict[str, Any], style: Style) -> list[str]:
    """Return the lines of `highwater fault list`: nodes, partitions, lost records and faults in force."""
    lines = [f"  {', '.join(state['bootstrap'])}   {state['profile']}, {state['at_s']:.1f} s", "", "  NODES"]
    lines += table_lines([(node["node"], _node_state(node, style)) for node in state["nodes"]])
    outside = state["outside_clients"]
    if outside:
        more = f" and {len(outside) - SHOWN_CLIENTS_MAX} more" if len(outside) > SHOWN_CLIENTS_MAX else ""
        lines.append(f"  outside clients: {', '.join(outside[-SHOWN_CLIENTS_MAX:])}{more}")
    shown = [item for item in state["partitions"] if not item["partition"].startswith("__")]
    hidden = len(state["partitions"]) - len(shown)
    if shown:
        lines += ["", *_partition_lines(shown, style)]
    if hidden:
        lines.append(f"  and {count_of(hidden, 'partition')} of internal topics (--format json shows them)")
    gone = state["acked_records_gone"]
    if gone:
        where = ", ".join(f"{partition} {count:,}" for partition, count in gone.items())
        sign = style.paint(style.sign("lost"), "red")
        lines += ["", f"  {sign} {count_of(sum(gone.values()), 'acked record')} lost: {where}"]
    lines += ["", "  FAULTS IN FORCE" if state["faults"] else "  no fault is in force"]
    for fault in state["faults"]:
        until = "" if fault["until_s"] is None else f", until {fault['until_s']:.1f} s"
        sign = style.paint(style.sign("fault"), "yellow")
        lines.append(f"  {sign} {fault['fault']}: {fault['what']} (since {fault['since_s']:.1f} s{until})")
    return lines


def _node_state(node: dict[str, Any], style: Style) -> str:
    colour = {"running": "green", "paused": "yellow", "down": "red"}[node["state"]]
    text = style.paint(f"{node['state']:<8}", colour)
    if node["active_controller"]:
        text += " active controller"
    if node["fenced"]:
        text += " fenced"
    led = [name for name in node["leads"] if not name.startswith("__")]
    internal = len(node["leads"]) - len(led)
    if led or internal:
        more = [f"{internal} internal"] if internal else []
        text += f" leads {', '.join([*led[:8], *(['...'] if len(led) > 8 else []), *more])}"
    return text.rstrip()


def _partition_lines(partitions: list[dict[str, Any]], style: Style) -> list[str]:
    """Return a table of the partitions: leader, ISR, and high watermark and log end offset of every replica."""
    rows = [("PARTITION", "LEADER", "ISR", "REPLICAS, HW/LEO")]
    for partition in partitions:
        leader = f"{partition['leader'] or 'none'} e{partition['leader_epoch']}"
        replicas = "  ".join(
            f"{replica['node']} {replica['high_watermark']}/{replica['log_end_offset']}"
            for replica in partition["replicas"]
        )
        short = len(partition["isr"]) < partition["min_isr"]
        isr = style.paint(",".join(partition["isr"]), "red" if short else "bold")
        rows.append((partition["partition"], leader, isr, replicas))
    return table_lines(rows)
