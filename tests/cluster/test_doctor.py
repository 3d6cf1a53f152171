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


VERSIONS = HERE["versions"]


@pytest.mark.parametrize(
    ("check", "arguments", "verdict", "text"),
    [
        ("versions", ({"the client": HERE, "b": place(versions=VERSIONS | {"numpy": "1.0"})},), "error", "1.0 at b"),
        ("cpu", ({"a": place(cpu=["avx2", "fma"]), "b": place(cpu=["avx2", "avx512f"])},), "warning", "avx512f, fma"),
        ("cpu", ({"a": place(target="generic"), "b": place(target="znver3 +avx")},), "warning", "generic and znver3"),
        ("threads", ({"w": place(cores=2, nthreads=4)},), "warning", "w runs 4 threads on 2 cores"),
        ("threads", ({"w": place(threads={"OMP_NUM_THREADS": "16", "X": None})},), "warning", "OMP_NUM_THREADS=16"),
        ("memory", ({"w": place()}, 1000, 10), "ok", ""),
        ("memory", ({"w": place()}, 15_000_000, 20), "warning", "may use 8.0 GiB; 8.5 GiB are advised"),
        ("memory", ({"w": place()}, 20_000_000, 20), "error", "training refuses to start"),
        ("memory", ({"w": place(memory_limit=None)}, 10_000_000, 20), "ok", ""),
        ("scratch", ({"w": place(scratch_free=1 << 20)},), "warning", "w"),
        ("files", ("/data", ["w"], 2), "error", "w"),
        ("encryption", (["tls://10.0.0.1:1", "tls://10.0.0.2:1"],), "ok", ""),
        ("encryption", (["tcp://127.0.0.1:1", "tcp://127.0.0.1:2"],), "ok", ""),
        ("encryption", (["tcp://127.0.0.1:1", "tcp://10.0.0.2:1"],), "warning", "10.0.0.2"),
    ],
)
def test_a_check(check, arguments, verdict, text):
    (found,) = getattr(diagnostics, check)(*arguments)
    assert found.verdict == verdict and text in found.text


def test_a_cluster_of_this_machine(tmp_path):
    X, y = random_counts(60, 50, 3, seed=7)
    corpus = write_corpus(tmp_path / "corpus.zarr", X, y)
    with connected(n_workers=2) as client:
        client.wait_for_workers(2, timeout=60)
        lines = diagnostics.examine(client, tmp_path, 50, 3)
        assert {line.topic for line in lines if line.verdict == "error"} == set()
        topics = ["versions", "cpu", "files", "memory", "threads", "scratch", "encryption"]
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
    monkeypatch.setattr(diagnostics, "scratch", lambda _: [diagnostics.Check("error", "scratch", "none")])
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
