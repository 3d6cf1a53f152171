"""The certificates that `sdem cluster certificates` makes."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cli.commands import ok, refused

pytest.importorskip("trustme", reason="trustme is not installed: pip install 'sdem_dist[tls]'")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls") / "certs"
    assert str(folder / "tls.yaml") in ok("cluster certificates", folder, "--days", "3")
    return folder


def test_only_the_owner_reads_them_and_the_authoritys_key_is_not_kept(folder):
    from cryptography import x509

    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    keys = [path.name for path in folder.iterdir() if "PRIVATE KEY" in path.read_text()]
    assert sorted(keys) == ["client-key.pem", "scheduler-key.pem", "worker-key.pem"]
    certificate = x509.load_pem_x509_certificate((folder / "worker.pem").read_bytes())
    assert timedelta(days=2) < certificate.not_valid_after_utc - datetime.now(UTC) <= timedelta(days=3)
    before = (folder / "ca.pem").read_bytes()
    assert "exists already" in refused("cluster certificates", folder)
    assert (folder / "ca.pem").read_bytes() == before


@pytest.mark.parametrize("role", ["scheduler", "worker", "client"])
def test_dask_loads_them(folder, role):
    import dask
    from distributed.security import Security

    settings = dask.config.collect([str(folder / "tls.yaml")], env={})
    with dask.config.set(dask.config.merge(dask.config.config, settings)):
        security = Security()
        assert security.require_encryption
        context = security.get_connection_args(role)["ssl_context"]
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert [ca["subject"] for ca in context.get_ca_certs()]
