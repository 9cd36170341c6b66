"""Finds run folders by path, number, scenario id, `last`, `last~1`, or the unique beginning of a name.

A name may have the containing folder in front, as in `mine/last`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replica.wording import spelt_out
from scenarios.process.work_folders import UNJUDGED

if TYPE_CHECKING:
    from scenarios.run.runner import RunResult

RUNS_DIR = Path("runs")


class RunInterrupted(KeyboardInterrupt):
    """Raised when a signal has ended a run early. `result` is the run up to then, which is kept."""

    def __init__(self, result: RunResult) -> None:
        super().__init__()
        self.result = result


class RunNotFound(ValueError):
    """Raised if a run cannot be found or read. The message is the reason, with a remedy or a similar name."""


def list_runs(runs_dir: Path = RUNS_DIR) -> list[Path]:
    """Return the complete runs, oldest first."""
    if not runs_dir.is_dir():
        return []
    return sorted(path for path in runs_dir.iterdir() if path.name[:4].isdigit() and (path / "summary.json").is_file())


def list_unjudged(runs_dir: Path = RUNS_DIR) -> list[Path]:
    """Return the folders of runs without a verdict, oldest first. Most commands refuse such runs."""
    if not runs_dir.is_dir():
        return []
    return sorted(path for path in runs_dir.iterdir() if path.name[:4].isdigit() and _is_unjudged(path))


def _is_unjudged(path: Path) -> bool:
    is_unfinished = (path / "trace").is_dir() and not (path / "summary.json").exists()
    return is_unfinished and path.resolve().name.endswith(UNJUDGED)


def find_run(name: str, runs_dir: Path = RUNS_DIR) -> Path:
    """Return the folder of a run.

    Raises:
        RunNotFound: no run has this name, or its folder contains a link, pipe, socket or device.
    """
    run_dir = _named(name, runs_dir)
    try:
        for path in _within(run_dir):
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                what = f"a link to `{path.readlink()}`" if stat.S_ISLNK(mode) else "a pipe, a socket or a device"
                raise RunNotFound(
                    f"{path} is {what}: a run's folder may have only files and folders. Replace it with a copy"
                )
    except OSError as error:
        raise RunNotFound(f"{error.filename} cannot be read: {error.strerror}") from error
    return run_dir


def find_unjudged(name: str | None, runs_dir: Path = RUNS_DIR) -> Path:
    """Return the run to judge: `name`, or the newest run without a verdict if it is None. Raises RunNotFound."""
    if name is None:
        unjudged = list_unjudged(runs_dir)
        if not unjudged:
            raise RunNotFound(f"every run in {runs_dir}/ has a verdict")
        return unjudged[-1]
    path = Path(name)
    if (path / "trace").is_dir():
        return path
    matches = [run for run in list_unjudged(runs_dir) if run.name.startswith(name) or run.name[:4] == name.zfill(4)]
    return matches[-1] if matches else find_run(name, runs_dir)


def _within(run_dir: Path) -> Iterator[Path]:
    """Yield all paths in a run's folder that commands read or write, except for the brokers' logs."""
    for path in sorted(run_dir.iterdir()):
        yield path
        if path.name in ("trace", "report") and not path.is_symlink():
            yield from sorted(path.rglob("*"))


def _named(name: str, runs_dir: Path) -> Path:
    """Return the folder of the run `name`, without checks of its content. Raises RunNotFound."""
    path = Path(name)
    try:
        if (path / "summary.json").is_file():
            return path
    except OSError as error:
        raise RunNotFound(f"no run `{name[:80]}`: {error.strerror}") from error
    # A name such as mine/last: the run is in a folder that --out has created.
    if path.name != name and path.parent.is_dir() and (not path.exists() or path.name == "last"):
        return _named(path.name, path.parent)
    runs = list_runs(runs_dir)
    back = re.fullmatch(r"last(?:~(\d{1,6}))?", name)
    if back is not None:
        steps = int(back[1] or 0)
        newest_first = _newest_first(runs, runs_dir)
        if steps < len(newest_first):
            return newest_first[steps]
        count = f"only {len(runs)} run{'' if len(runs) == 1 else 's'}" if runs else "no run yet"
        raise RunNotFound(f"no run `{name}`: {runs_dir}/ has {count} (make one with `highwater run SCENARIO`)")
    if re.fullmatch(r"\d{1,4}", name, re.ASCII):
        name = name.zfill(4)
    kept = sorted([*runs, *list_unjudged(runs_dir)])
    matches = [run for run in kept if run.name == name or run.name.startswith(name) or run.name[5:] == name]
    if len(matches) == 1:
        return _judged(matches[0])
    if len(matches) > 1:
        return _judged(_only_or_newest(name, matches))
    if path.is_dir():
        _judged(path)
        raise RunNotFound(
            f"the folder `{name}` is not a run: it has no summary.json. `highwater run SCENARIO` makes runs"
            f" and keeps them in {runs_dir}/"
        )
    known = [*(["last"] if runs else []), *(run.name for run in runs), *(run.name[5:] for run in runs)]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean `{close[0]}`?" if close else " Make one with `highwater run SCENARIO`."
    raise RunNotFound(f"no run `{name}` in {runs_dir}/.{hint}")


def _judged(run: Path) -> Path:
    """Return the run's folder unchanged. Raises RunNotFound if the run has no verdict."""
    if _is_unjudged(run):
        raise RunNotFound(
            f"{run} has no verdict: the run was abandoned, or judging it failed. "
            f"To judge it by its trace: highwater judge {shlex.quote(str(run))}. "
            f"To read the logs of its brokers: highwater read {shlex.quote(f'{run}/logs')}/*"
        )
    return run


def _newest_first(runs: list[Path], runs_dir: Path) -> list[Path]:
    """Return the runs, newest first: the run named in the file `last`, then all others by number."""
    pointer = runs_dir / "last"
    named = pointer.read_text(encoding="utf-8", errors="replace").strip() if pointer.is_file() else ""
    return sorted(runs, key=lambda run: (run.name == named, run.name), reverse=True)


def _only_or_newest(name: str, matches: list[Path]) -> Path:
    """Return the newest of several matches if all of them are runs of the scenario `name`.

    Args:
        matches: folders, oldest first.

    Raises:
        RunNotFound: `name` is an ambiguous prefix.
    """
    if all(run.name[5:] == name for run in matches):
        return matches[-1]
    raise RunNotFound(f"`{name}` matches {', '.join(run.name for run in matches[:5])}: write more of the name")


def read_summary(run_dir: Path) -> dict[str, Any]:
    """Return the content of summary.json. Raises RunNotFound if it cannot be read."""
    try:
        summary = json.loads((run_dir / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunNotFound(f"{run_dir / 'summary.json'} cannot be read: {error}") from error
    records = summary.get("records") if isinstance(summary, dict) else None
    lost = records.get("lost") if isinstance(records, dict) else None
    if not isinstance(records, dict) or not isinstance(lost, list) or not all(isinstance(name, str) for name in lost):
        raise RunNotFound(f"{run_dir / 'summary.json'} is not a run's summary: `records.lost` must be a list of names")
    return {**summary, "records": {**records, "lost": list(map(spelt_out, lost))}}


def read_lock(run_dir: Path, summary: dict[str, Any]) -> str:
    """Return the run's scenario.lock.yaml as text.

    Raises:
        RunNotFound: the file cannot be read, or was changed after the run.
    """
    file = run_dir / "scenario.lock.yaml"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunNotFound(f"{file} cannot be read: {error}") from error
    if lock_sha256(text) != summary.get("lock_sha256"):
        raise RunNotFound(
            f"{file} was changed after the run: its hash is not the `lock_sha256` in summary.json."
            f" To play the changed scenario: `highwater run {file}`"
        )
    return text


def lock_sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
