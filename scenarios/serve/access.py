"""Who may come into a live cluster, and who may do everything there: the users of `highwater serve`."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

PASSWORD_BYTES_MAX = 1024
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class AccessRefused(Exception):
    """An option of `serve` that cannot be followed; the text says which, why and what helps."""


def passwords_of(wishes: Sequence[str]) -> dict[str, str]:
    """By user.     wishes: NAME:PASSWORD-FILE     raises: AccessRefused"""
    passwords: dict[str, str] = {}
    for wish in wishes:
        name, colon, file = wish.partition(":")
        if not (colon and name and file):
            raise AccessRefused(f"--user wants NAME:PASSWORD-FILE, for example alice:alice.password, not `{wish}`")
        if not name.isprintable():
            raise AccessRefused("--user: a name has only characters that can be printed")
        if name in passwords:
            raise AccessRefused(f"--user names `{name}` twice")
        passwords[name] = _password(name, Path(file))
    return passwords


def super_users_of(
    names: Sequence[str], *, authorizes: bool, in_zookeeper_era: bool, allows_unruled: bool
) -> tuple[str, ...] | None:
    """As `User:name`; None: all users may do everything.     raises: AccessRefused

    names: of --super-user     allows_unruled: allow.everyone.if.no.acl.found; then anyone can add the first rule
    """
    if not authorizes:
        if names:
            raise AccessRefused("--super-user belongs to --authorize: without it all users may do everything")
        return None
    if in_zookeeper_era:
        raise AccessRefused(
            "--authorize: the rules are records of the metadata log, which releases before 3.3 do not have here; "
            "choose another --profile"
        )
    if not names and not allows_unruled:
        raise AccessRefused(
            "--authorize: no user could add the first rule; name one with --super-user NAME "
            "(ANONYMOUS for all who have not logged in), or allow what no rule is about with "
            "--set cluster.config.allow.everyone.if.no.acl.found=true"
        )
    for name in names:
        if not name.removeprefix("User:") or not name.isprintable():
            raise AccessRefused(f"--super-user wants the name of a user, for example alice, not `{name}`")
    return tuple(dict.fromkeys(f"User:{name.removeprefix('User:')}" for name in names))


def _password(name: str, file: Path) -> str:
    """The first line."""
    try:
        mode = file.stat().st_mode
        if stat.S_ISREG(mode) and mode & OTHERS:
            raise AccessRefused(f"--user {name}: others may open {file}, which has a password: chmod 600 {file}")
        with file.open("rb") as opened:
            data = opened.read(PASSWORD_BYTES_MAX + 1)
        password, *rest = data.decode("utf-8").splitlines() or [""]
    except OSError as error:
        raise AccessRefused(f"--user {name}: {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AccessRefused(f"--user {name}: {file} is no text in UTF-8") from None
    if len(data) > PASSWORD_BYTES_MAX or rest:
        most = f"one line of at most {PASSWORD_BYTES_MAX} bytes"
        raise AccessRefused(f"--user {name}: {file} is to hold a password, {most}, and has more")
    if not password or "\0" in password:
        raise AccessRefused(f"--user {name}: there is no password in {file}; write one into its first line")
    return password
