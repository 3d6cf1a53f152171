"""`sdem doctor`: findings about machines that are alike, and about those that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from reference.random_documents import random_counts

from sdem_dist import ClusterError, write_corpus
from sdem_dist.cli import main
from sdem_dist.cluster import connected, diagnostics

HERE = diagnostics.facts_of_process()


def place(**changed: Any) -> dict[str, Any]:
    return HERE | {"memory_limit": 8 << 30, "nthreads": 1} | changed


def the(topic: str, *size: int, client: Any = HERE, **examined: Any) -> tuple[str, str]:
    """Return the verdict and the text of the one line about a topic."""
    workers = examined.pop("workers", {"w": place()})
    lines = diagnostics.checks_of(diagnostics.Examined({"the client": client, **workers}, workers, **examined), *size)
    (line,) = [line for line in lines if line.topic == topic]
    return line.verdict, line.text


def test_versions_that_differ_are_an_error_that_names_both():
    other = place(versions=HERE["versions"] | {"numpy": "1.0"})
    verdict, text = the("versions", workers={"w": place(), "tcp://b": other})
    assert verdict == "error"
    assert text == f"numpy is {HERE['versions']['numpy']} at the client, 1.0 at tcp://b"


def test_cpu_features_that_differ():
    verdict, text = the("cpu", client=place(cpu=["avx2", "fma"]), workers={"b": place(cpu=["avx2", "avx512f"])})
    assert verdict == "warning"
    assert "the client and b differ in avx512f, fma" in text


def test_kernels_compiled_for_other_processors():
    verdict, text = the("cpu", client=place(target="generic"), workers={"b": place(target="znver3 +avx")})
    assert verdict == "warning"
    assert "the client and b differ in generic and znver3" in text


def test_threads():
    assert the("threads", workers={"w": place(cores=2, nthreads=4)}) == ("warning", "w runs 4 threads on 2 cores")
    verdict, text = the("threads", workers={"w": place(threads={"OMP_NUM_THREADS": "16", "MKL_NUM_THREADS": None})})
    assert verdict == "warning"
    assert "OMP_NUM_THREADS=16" in text


def test_memory_against_the_models_need():
    assert the("memory", 1000, 10)[0] == "ok"
    verdict, text = the("memory", 15_000_000, 20)
    assert verdict == "warning"
    assert "may use 8.0 GiB; 8.5 GiB are advised" in text
    verdict, text = the("memory", 20_000_000, 20)
    assert verdict == "error"
    assert "training refuses to start" in text
    assert the("memory", 10_000_000, 20, workers={"w": place(memory_limit=None)})[0] == "ok"


def test_the_rest():
    assert the("scratch", workers={"w": place(scratch_free=1 << 20)})[0] == "warning"
    assert the("clocks", seconds_apart={"w": -30.0}) == ("warning", "w is -30.0 s off the client's clock")
    trips = {"w": 0.001, "v": 3.0}
    assert the("network", round_trips=trips, speeds={"w": 1e9, "v": 1e9})[0] == "warning"
    assert the("files", folder="/data", without_file=["w"])[0] == "error"


@pytest.mark.parametrize(
    ("addresses", "verdict"),
    [
        (["tls://10.0.0.1:1", "tls://10.0.0.2:1"], "ok"),
        (["tcp://127.0.0.1:1", "tcp://127.0.0.1:2"], "ok"),
        (["tcp://127.0.0.1:1", "tcp://10.0.0.2:1"], "warning"),
    ],
)
def test_encryption(addresses, verdict):
    assert the("encryption", addresses=addresses)[0] == verdict


def test_a_cluster_of_this_machine(tmp_path):
    X, y = random_counts(60, 50, 3, seed=7)
    corpus = write_corpus(tmp_path / "corpus.zarr", X, y)
    with connected(n_workers=2) as client:
        client.wait_for_workers(2, timeout=60)
        lines = diagnostics.examine(client, tmp_path, 50, 3)
        assert {line.topic for line in lines if line.verdict == "error"} == set()
        topics = ["versions", "cpu", "files", "network", "memory", "threads", "scratch", "clocks", "encryption"]
        assert list(dict.fromkeys(line.topic for line in lines)) == topics
        address = client.scheduler.address
        command = ["doctor", "--scheduler", address, "--folder", str(tmp_path), "--corpus", corpus.path]
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
        assert result.output.splitlines()[-1].startswith("fit")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.zarr"]


def test_an_error_is_the_exit_code(monkeypatch, tmp_path):
    monkeypatch.setattr(diagnostics, "SCRATCH", 1 << 60)
    assert CliRunner().invoke(main, ["doctor"]).exit_code == 0  # a warning is none
    monkeypatch.setattr(diagnostics, "examine_here", lambda: [diagnostics.Check("error", "scratch", "none")])
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    assert "not fit: 1 error, 0 warnings" in result.output


def test_a_scheduler_without_workers():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None, protocol="tcp", host="127.0.0.1") as cluster,
        Client(cluster) as client,
        pytest.raises(ClusterError, match="has no workers to look at"),
    ):
        diagnostics.examine(client, Path())
