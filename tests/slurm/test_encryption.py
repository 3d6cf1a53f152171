"""Encrypted connections between a driver and batch jobs: who has no certificate of the cluster is refused."""

from __future__ import annotations

from pathlib import Path

import dask
import pytest
from faults.clusters import model
from reference.trained_bits import bits

from sdem_dist import ClusterError
from sdem_dist.cluster import batch_jobs, connected
from sdem_dist.cluster.certificates import make_certificates

pytest.importorskip("trustme", reason="trustme is not installed: pip install 'sdem_dist[tls]'")


def client_of(folder: Path | None) -> dict[str, str | None]:
    """Return the configuration of a client with the certificate in a folder, or with none."""
    files = {"ca-file": "ca.pem", "client.cert": "client.pem", "client.key": "client-key.pem"}
    return {f"distributed.comm.tls.{name}": folder and str(folder / file) for name, file in files.items()}


def test_clients_without_a_certificate_are_refused(corpus, undisturbed, cluster_file, tmp_path):
    ours, others = make_certificates(tmp_path / "ours").parent, make_certificates(tmp_path / "others").parent
    with batch_jobs(cluster_file({"certificates": "ours"})) as client:
        address = client.scheduler.address
        assert all(a.startswith("tls://") for a in [address, *client.scheduler_info(n_workers=-1)["workers"]])
        assert bits(model().fit(corpus, client=client)) == undisturbed
        for certificate, place, why in (
            (client_of(None), address, "no certificate is configured"),
            (client_of(None), address.replace("tls://", "tcp://"), "no Dask scheduler answered"),
            (client_of(others), address, "TLS certificate does not match|certificate verify failed"),
        ):
            with (
                dask.config.set({"distributed.comm.require-encryption": False, **certificate}),
                pytest.raises(ClusterError, match=why),
                connected(place, timeout=2),
            ):
                pass
        with dask.config.set(client_of(ours)), connected(address, timeout=10) as second:
            assert second.submit(sum, [1, 2]).result(timeout=30) == 3
