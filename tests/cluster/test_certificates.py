"""The certificates that `sdem cluster certificates` makes."""

from __future__ import annotations

import ssl

import pytest
from click.testing import CliRunner

from sdem_dist.cli import main

pytest.importorskip("trustme", reason="trustme is not installed: pip install 'sdem_dist[tls]'")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("tls")
    result = CliRunner().invoke(main, ["cluster", "certificates", str(tmp_path / "certs"), "--days", "3"])
    assert result.exit_code == 0, result.output
    assert str(tmp_path / "certs" / "tls.yaml") in result.output
    return tmp_path / "certs"


def test_only_the_owner_reads_them(folder):
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_the_authoritys_key_is_not_kept(folder):
    keys = [path.name for path in folder.iterdir() if "PRIVATE KEY" in path.read_text()]
    assert sorted(keys) == ["client-key.pem", "scheduler-key.pem", "worker-key.pem"]


@pytest.mark.parametrize("role", ["scheduler", "worker", "client"])
def test_dask_loads_them(folder, role):
    import dask
    from distributed.security import Security

    with dask.config.set(
        dask.config.merge(dask.config.config, dask.config.collect([str(folder / "tls.yaml")], env={}))
    ):
        security = Security()
        assert security.require_encryption
        context = security.get_connection_args(role)["ssl_context"]
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert [ca["subject"] for ca in context.get_ca_certs()]


def test_they_are_valid_for_as_long_as_asked(folder):
    from datetime import UTC, datetime, timedelta

    from cryptography import x509

    certificate = x509.load_pem_x509_certificate((folder / "worker.pem").read_bytes())
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=2) < left <= timedelta(days=3)


def test_a_folder_that_is_there_is_left_alone(folder):
    before = (folder / "ca.pem").read_bytes()
    result = CliRunner().invoke(main, ["cluster", "certificates", str(folder)])
    assert result.exit_code == 1
    assert "exists already" in result.output
    assert (folder / "ca.pem").read_bytes() == before
