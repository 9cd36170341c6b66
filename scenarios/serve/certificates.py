"""Certificates of `highwater serve --tls`: the user's own, or one that a throw-away authority has just signed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cluster.live.tls import TlsFilesInvalid, server_context
from cluster.security import TlsFiles
from scenarios.serve.access import AccessRefused

AUTHORITY = "ca.pem"


def own_files(certificate: Path, key: Path) -> TlsFiles:
    """raises: AccessRefused where no server can use them"""
    files = TlsFiles(certificate.resolve(), key.resolve())
    try:
        server_context(files)
    except TlsFilesInvalid as invalid:
        raise AccessRefused(f"--tls-cert, --tls-key: {invalid}") from None
    return files


def throw_away_files(folder: Path, hosts: Sequence[str]) -> TlsFiles:
    """Makes an authority, and a certificate of it for names and addresses; the authority's own is `ca.pem` there.

    The authority's key is never written, so it signs nothing else. raises: OSError
    """
    import trustme

    authority = trustme.CA(organization_name="highwater serve")
    issued = authority.issue_cert(*hosts)
    folder.mkdir(parents=True, exist_ok=True)
    files = TlsFiles((folder / "server.pem").resolve(), (folder / "server.key").resolve())
    authority.cert_pem.write_to_path(str(folder / AUTHORITY))
    files.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    files.key.unlink(missing_ok=True)
    files.key.touch(mode=0o600)
    issued.private_key_pem.write_to_path(str(files.key), append=True)
    return files
