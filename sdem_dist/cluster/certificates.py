"""Certificates for a cluster's encrypted connections, made by `trustme`; Dask checks them with OpenSSL."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

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
    authority = trustme.CA(organization_name="sdem_dist cluster")
    contents = {"ca.pem": authority.cert_pem.bytes()}
    tls: dict[str, object] = {"ca-file": str(folder / "ca.pem")}
    for role in ROLES:
        until = datetime.now(UTC) + timedelta(days=days)
        issued = authority.issue_cert(f"{role}.sdem-dist.invalid", common_name=role, not_after=until)
        contents[f"{role}.pem"] = b"".join(pem.bytes() for pem in issued.cert_chain_pems)
        contents[f"{role}-key.pem"] = issued.private_key_pem.bytes()
        tls[role] = {"cert": str(folder / f"{role}.pem"), "key": str(folder / f"{role}-key.pem")}
    comm = {"default-scheme": "tls", "require-encryption": True, "tls": tls}
    contents["tls.yaml"] = msgspec.yaml.encode({"distributed": {"comm": comm}})
    try:
        with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as hidden:  # readable for its owner only
            for name, content in contents.items():
                with os.fdopen(os.open(Path(hidden, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                    out.write(content)
            Path(hidden).rename(folder)  # all, or nothing
            Path(hidden).mkdir()  # the context removes it
    except OSError as error:
        raise ClusterError(f"{folder} cannot be made: {error.strerror}") from error
    return folder / "tls.yaml"
