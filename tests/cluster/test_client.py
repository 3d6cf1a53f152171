"""Getting a client, and the errors of clusters that are not there."""

import json
import socket
import time

import pytest

from sdem_dist.cluster import connected
from sdem_dist.errors import ClusterError


def closed_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_nothing_asked_for_is_no_client_and_both_are_an_error():
    with connected() as client:
        assert client is None
    with pytest.raises(ValueError, match="not both"), connected("tcp://127.0.0.1:1", 2):
        pass


@pytest.mark.parametrize("by", ["address", "file"])
def test_a_scheduler_that_accepts_and_never_answers_is_named_in_time(by, tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        where = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        if by == "file":
            (tmp_path / "scheduler.json").write_text(json.dumps({"address": where}))
            where = str(tmp_path / "scheduler.json")
        began = time.monotonic()
        with pytest.raises(ClusterError, match="within 1 s"), connected(where, timeout=1.0):
            pass
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "address",
    [
        "nonsense", "127.0.0.1:port", "carrier-pigeon://127.0.0.1:1", "tls://127.0.0.1:1", "absent.json", "other.json",
        f"tcp://127.0.0.1:{closed_port()}",
    ],
)  # fmt: skip
def test_no_client_is_made_for_an_address_that_is_none(address, tmp_path, monkeypatch):
    import dask
    from distributed import Client

    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text("[]")
    before = set(Client._instances)
    with pytest.raises(ClusterError, match=address) as refused, connected(address, timeout=0.5):
        pass
    assert dask.config.get("scheduler", None) is None
    assert set(Client._instances) == before
    assert refused.tb is not None  # which would have kept alive what had been made


@pytest.mark.parametrize(
    ("rest", "n_workers"),
    [
        ("user:s3cret@127.0.0.1:9", 1),
        ("user:s3/cret@127.0.0.1:9", None),
        ("s3cret@127.0.0.1:9/clusters/x", 1),
        ("127.0.0.1:9/?token=s3cret", 1),
    ],
)
def test_credentials_in_an_address_are_refused_and_not_printed(rest, n_workers):
    with pytest.raises(ClusterError, match="Dask's configuration") as caught, connected(f"https://{rest}", n_workers):
        pass
    assert "cret" not in str(caught.value)


def test_scheduler_by_address_and_by_file_and_without_workers(tmp_path):
    from distributed import LocalCluster

    from sdem_dist.engine.dask import DaskExecutor

    with LocalCluster(
        n_workers=0, processes=False, dashboard_address=None, protocol="tcp", host="127.0.0.1"
    ) as cluster:
        address = cluster.scheduler_address
        with connected(address, timeout=5) as client:
            assert client.scheduler.address == address
            with pytest.raises(ClusterError, match=f"{address} has had no worker for 0.1 s"):
                DaskExecutor(client, wait_for_workers=0.1)
            identity = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.identity())
        file = tmp_path / "scheduler.json"
        file.write_text(json.dumps(identity))
        with connected(str(file), timeout=5) as client:
            assert client.scheduler.address == address


def measurements_kept(dask_scheduler) -> int:
    (plugin,) = (p for p in dask_scheduler.plugins.values() if type(p).__name__ == "TaskStreamPlugin")
    return plugin.buffer.maxlen


def without_gathering(dask_scheduler) -> None:
    dask_scheduler.handlers["gather"] = None


def test_a_scheduler_in_the_driver_keeps_few_measurements_and_results_do_not_pass_through_it():
    from sdem_dist.engine.dask import DaskExecutor

    with connected(n_workers=1) as client:
        executor = DaskExecutor(client)
        assert client.run_on_scheduler(measurements_kept) == 4_000
        client.run_on_scheduler(without_gathering)
        assert executor.result(executor.submit(len, "four")) == 4
