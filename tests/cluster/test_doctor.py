"""`sdem doctor`: findings about machines that are alike, and about those that are not."""

from pathlib import Path
from typing import Any

import pytest
from cli.commands import ok, run
from reference.random_documents import random_counts

from sdem_dist import ClusterError, write_corpus
from sdem_dist.cluster import connected, diagnostics

HERE = diagnostics.facts_of_process()


def place(**changed: Any) -> dict[str, Any]:
    return HERE | {"memory_limit": 8 << 30, "nthreads": 1} | changed


NUMPY, BIG = place(versions=HERE["versions"] | {"numpy": "1.0"}), (20_000_000, 20)
FINDINGS = {
    "versions": ("versions", {"workers": {"w": place(), "tcp://b": NUMPY}}, (), "error",
                 f"numpy is {HERE['versions']['numpy']} at the client, 1.0 at tcp://b"),
    "processors": ("cpu", {"client": place(cpu=["avx2", "fma"]), "workers": {"b": place(cpu=["avx2", "avx512f"])}}, (),
                   "warning", "the client and b differ in avx512f, fma"),
    "targets": ("cpu", {"client": place(target="generic"), "workers": {"b": place(target="znver3 +avx")}}, (),
                "warning", "the client and b differ in generic and znver3"),
    "threads": ("threads", {"workers": {"w": place(cores=2, nthreads=4)}}, (), "warning", "w runs 4 threads on 2 cores"),
    "threads of libraries": ("threads", {"workers": {"w": place(threads={"OMP_NUM_THREADS": "16"})}}, (), "warning",
                             "OMP_NUM_THREADS=16"),
    "memory": ("memory", {}, (1000, 10), "ok", ""),
    "memory that may do": ("memory", {}, (15_000_000, 20), "warning", "may use 8.0 GiB; 8.5 GiB are advised"),
    "memory that is short": ("memory", {}, BIG, "error", "training refuses to start"),
    "memory without a limit": ("memory", {"workers": {"w": place(memory_limit=None)}}, (10_000_000, 20), "ok", ""),
    "scratch": ("scratch", {"workers": {"w": place(scratch_free=1 << 20)}}, (), "warning", ""),
    "clocks": ("clocks", {"seconds_apart": {"w": -30.0}}, (), "warning", "w is -30.0 s off the client's clock"),
    "network": ("network", {"round_trips": {"w": 0.001, "v": 3.0}, "speeds": {"w": 1e9, "v": 1e9}}, (), "warning", ""),
    "files": ("files", {"folder": "/data", "without_file": ["w"]}, (), "error", ""),
    "encrypted": ("encryption", {"addresses": ["tls://10.0.0.1:1", "tls://10.0.0.2:1"]}, (), "ok", ""),
    "loopback": ("encryption", {"addresses": ["tcp://127.0.0.1:1", "tcp://127.0.0.1:2"]}, (), "ok", ""),
    "in the clear": ("encryption", {"addresses": ["tcp://127.0.0.1:1", "tcp://10.0.0.2:1"]}, (), "warning", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", FINDINGS)
def test_what_is_found(name):
    topic, examined, size, verdict, text = FINDINGS[name]
    examined = {"client": HERE, "workers": {"w": place()}, **examined}
    workers = examined.pop("workers")
    places = {"the client": examined.pop("client"), **workers}
    lines = diagnostics.checks_of(diagnostics.Examined(places, workers, **examined), *size)
    (line,) = [line for line in lines if line.topic == topic]
    assert line.verdict == verdict and text in line.text


def test_a_cluster_of_this_machine(tmp_path):
    corpus = write_corpus(tmp_path / "corpus.zarr", *random_counts(60, 50, 3, seed=7))
    with connected(n_workers=2) as client:
        client.wait_for_workers(2, timeout=60)
        lines = diagnostics.examine(client, tmp_path, 50, 3)
        assert {line.topic for line in lines if line.verdict == "error"} == set()
        topics = ["versions", "cpu", "files", "network", "memory", "threads", "scratch", "clocks", "encryption"]
        assert list(dict.fromkeys(line.topic for line in lines)) == topics
        said = ok("doctor --scheduler", client.scheduler.address, "--folder", tmp_path, "--corpus", corpus.path)
        assert said.splitlines()[-1].startswith("fit")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.zarr"]


def test_an_error_is_the_exit_code(monkeypatch):
    monkeypatch.setattr(diagnostics, "SCRATCH", 1 << 60)
    ok("doctor")  # a warning is none
    monkeypatch.setattr(diagnostics, "examine", lambda *_: [diagnostics.Check("error", "scratch", "none")])
    result = run("doctor")
    assert result.exit_code == 1 and "not fit: 1 error, 0 warnings" in result.output


def test_a_scheduler_without_workers():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None, protocol="tcp", host="127.0.0.1") as cluster,
        Client(cluster) as client,
        pytest.raises(ClusterError, match="has no workers to look at"),
    ):
        diagnostics.examine(client, Path())
