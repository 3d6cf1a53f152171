"""Certificates for a cluster's encrypted connections, made by `trustme`; Dask checks them with OpenSSL."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from sdem_dist.errors import ClusterError

ROLES = ("scheduler", "worker", "client")


def make_certificates(folder: str | Path, days: int = 365) -> Path:
    """Make a certificate authority and a key and certificate for each role.

    The authority's key is in memory only and forgotten, so that nobody can issue another certificate that this cluster
    would accept; make a new set instead.

    `folder`: made, readable for its owner only; must not exist.
    `days`: how long the certificates are valid.
    Returns Path: ``tls.yaml``, the Dask configuration that uses them and requires encryption.
    Raises ClusterError: the folder is there already or cannot be made, or `trustme` is not installed.
    """
    try:
        import trustme
    except ImportError as error:
        raise ClusterError("certificates need trustme: pip install 'sdem_dist[tls]'") from error
    folder = Path(folder).absolute()
    if folder.exists():
        raise ClusterError(f"{folder} exists already: a new set of certificates needs a new folder")
    try:
        with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as made:  # readable for its owner only
            _fill(Path(made), folder, trustme, days)
            Path(made).rename(folder)  # whole, or not at all
            Path(made).mkdir()  # the context removes it
    except OSError as error:
        raise ClusterError(f"{folder} cannot be made: {error.strerror}") from error
    return folder / "tls.yaml"


def _fill(here: Path, folder: Path, trustme: ModuleType, days: int) -> None:
    """Write a set of certificates into `here`, with a configuration that finds them in `folder`."""
    import yaml

    authority = trustme.CA(organization_name="sdem_dist cluster")
    until = datetime.now(UTC) + timedelta(days=days)
    _write(here / "ca.pem", authority.cert_pem.bytes())
    tls: dict[str, object] = {"ca-file": str(folder / "ca.pem")}
    for role in ROLES:
        issued = authority.issue_cert(f"{role}.sdem-dist.invalid", common_name=role, not_after=until)
        _write(here / f"{role}.pem", b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        _write(here / f"{role}-key.pem", issued.private_key_pem.bytes())
        tls[role] = {"cert": str(folder / f"{role}.pem"), "key": str(folder / f"{role}-key.pem")}
    comm = {"default-scheme": "tls", "require-encryption": True, "tls": tls}
    _write(here / "tls.yaml", yaml.safe_dump({"distributed": {"comm": comm}}).encode())


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(content)
