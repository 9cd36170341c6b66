"""`highwater site`: writes the bundled scenarios, lessons and documents as a static site."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from scenarios.cli.common import fail, must_hold_files
from scenarios.terminal.interruption import ExitCode


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder for the site.")
@click.option("--with-agreement/--without-agreement", default=True, help="Show or omit whether real Kafka agrees.")
@click.option("--url", default="", metavar="URL", help="URL of the future site, for its sitemap.")
@click.option("--processes", type=click.IntRange(1, 256), help="Processes to use; by default one per core.")
def site(out: Path, with_agreement: bool, url: str, processes: int | None) -> int:
    """Write a static site of all bundled scenarios, lessons and documents, to be read offline in any browser. Results
    of an earlier build are reused if their files have not changed.
    """
    from scenarios.cli.site.build import build

    must_hold_files(out)
    began_s = time.monotonic()
    try:
        built = build(out, processes=processes or os.cpu_count() or 1, address=url, with_agreement=with_agreement)
    except OSError as error:
        fail(f"{error.filename or out} cannot be written: {error.strerror}", ExitCode.USAGE)
    took_s = time.monotonic() - began_s
    click.echo(
        f"  {built.pages} pages, {built.played} scenarios played, {built.written} files new or changed, {took_s:.0f} s"
    )
    click.echo(f"  {out / 'index.html'}")
    return ExitCode.HELD
