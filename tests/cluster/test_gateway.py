"""A real server of dask-gateway on loopback, whose clusters are processes of this machine."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from cli.commands import ok, refused
from faults.clusters import wait_until
from reference.trained_bits import bits

from sdem_dist import MultinomialNB, compat, load_model, open_corpus, write_corpus
from sdem_dist.cluster import connected

if find_spec("dask_gateway_server") is None:  # its wheel has a program for Linux on x86-64 alone
    pytest.skip("dask-gateway-server is not installed", allow_module_level=True)

SETTINGS = """
c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.DaskGateway.address, c.Proxy.address = "127.0.0.1:{}", "127.0.0.1:{}"
c.ClusterConfig.scheduler_cmd = ["{python}", "-m", "distributed.cli.dask_scheduler"]
c.ClusterConfig.worker_cmd = ["{python}", "-m", "distributed.cli.dask_worker", "--no-nanny"]
c.UnsafeLocalBackend.inherited_environment = ["PATH", "PYTHONPATH", "NUMBA_CACHE_DIR"]
"""


def free_ports(n):
    with ExitStack() as found:
        return [found.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(n)]


def answers(gateway):
    with suppress(OSError, ValueError):
        return gateway.list_clusters() == []


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    """The address of the server, and what asks it."""
    import dask_gateway

    compat.close_gateways_by_hand(dask_gateway.Gateway)
    folder, ports = tmp_path_factory.mktemp("gateway"), free_ports(2)
    (folder / "settings.py").write_text(SETTINGS.format(*ports, python=sys.executable))
    command = [sys.executable, "-m", "dask_gateway_server", "-f", "settings.py"]
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    with open(folder / "log", "w") as log:
        apart: dict = {"env": {**os.environ, "PYTHONPATH": path}, "start_new_session": True}
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **apart)
    try:
        wait_until(lambda: "server started" in (folder / "log").read_text(), "the gateway runs", 60)
        gateway = dask_gateway.Gateway(f"http://127.0.0.1:{ports[1]}")
        wait_until(lambda: answers(gateway), "the gateway's proxy knows where it is", 60)
        yield gateway
        gateway.close()
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(30)
        finally:
            os.killpg(server.pid, signal.SIGKILL) if server.poll() is None else None


@pytest.fixture
def corpus(tmp_path):
    rng = np.random.default_rng(0)
    write_corpus(tmp_path / "c", rng.poisson(0.3, (600, 40)), rng.integers(0, 3, 600).astype(str), shard_documents=100)
    return open_corpus(tmp_path / "c")


def test_commands_on_a_new_cluster_and_fits_on_one_that_is_there(gateway, corpus, tmp_path):
    train = ["train", tmp_path / "c", tmp_path / "m", "--overwrite", "--epochs", "1", "--lanes", "4", "--scheduler"]
    here = bits(MultinomialNB(n_epochs=1, n_lanes=4).fit(corpus))
    ok(*train, gateway.address, "--workers", "2")
    assert bits(load_model(tmp_path / "m")) == here
    assert gateway.list_clusters() == []
    with gateway.new_cluster() as cluster:
        cluster.scale(1)
        with connected(f"{gateway.address}/clusters/{cluster.name}") as client:
            assert bits(MultinomialNB(n_epochs=1, n_lanes=4).fit(corpus, client=client)) == here
        assert [each.name for each in gateway.list_clusters()] == [cluster.name]
    there, nobody = f"{gateway.address}/clusters/x", f"http://127.0.0.1:{free_ports(1)[0]}"
    for address, workers, said in (
        (gateway.address, [], "number of workers"),
        (there, ["--workers", "2"], "omit this number"),
        (there, [], "did not start a cluster"),
        (nobody, ["--workers", "2"], "did not start a cluster (ClientConnectorError"),
    ):
        assert said in refused(*train, address, *workers)


def test_a_run_that_is_ended_ends_its_cluster(gateway, corpus, tmp_path):
    command = [sys.executable, "-m", "sdem_dist", "train", tmp_path / "c", tmp_path / "m", "--epochs", "100000"]
    command += ["--quiet", "--scheduler", gateway.address, "--workers", "1", "--checkpoint", tmp_path / "run"]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: any(tmp_path.glob("run/*")), "a checkpoint of a cluster that is there", 120)
        run.send_signal(signal.SIGTERM)
        said = run.communicate(timeout=60)[1]
        assert run.returncode == 128 + signal.SIGTERM
        assert "Traceback" not in said
    finally:
        run.kill()
    assert gateway.list_clusters() == []
