"""Processes of an ingest that are killed: their blocks are counted anew, or there is an error and no corpus."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from faults import ingester
from faults.clusters import all_gone
from faults.saboteur import killed, plan_faults, work

from sdem_dist import open_corpus
from sdem_dist.corpus import check_corpus
from sdem_dist.errors import IngestError
from sdem_dist.text import analysis

LAST = ingester.N_BLOCKS - 1


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    rng = np.random.default_rng(0)
    lines = [
        f"{'ab'[i % 2]}\t" + " ".join(f"word{w}" for w in rng.integers(0, 300, 30))
        for i in range(ingester.N_BLOCKS * ingester.BLOCK)
    ]
    path = tmp_path_factory.mktemp("source") / "documents.tsv"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def undisturbed(source, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("undisturbed") / "corpus"
    ingester.run(source, path, n_jobs=1)
    return open_corpus(path).header.uid


@pytest.fixture
def disturbed(folder, monkeypatch):
    monkeypatch.setattr(analysis, "count_block", ingester.count_disturbed)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("points", [["count 3"], [f"count {LAST}"], ["count 2", "count 3", "count 17"]])
def test_killed_processes_are_replaced(points, source, undisturbed, disturbed, tmp_path):
    plan_faults(disturbed, *points)
    ingester.run(source, tmp_path / "corpus", n_jobs=2)
    corpus = open_corpus(tmp_path / "corpus")
    assert corpus.header.uid == undisturbed
    assert not list(check_corpus(corpus))
    assert len(set(killed(disturbed))) == len(points) and all_gone(killed(disturbed))
    assert all(work(disturbed)[point] >= 2 for point in points)
    assert os.getpid() not in killed(disturbed)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["corpus", "sabotage"]


@pytest.mark.slow
def test_a_block_that_kills_each_time_ends_the_ingest(source, disturbed, tmp_path):
    plan_faults(disturbed, "count 12", times=99)
    with pytest.raises(IngestError, match=r"died while it was at blocks \d+ to \d+, 3 time\(s\)"):
        ingester.run(source, tmp_path / "corpus", n_jobs=2)
    # Blocks before it may have been counted between two deaths, and then they are not "in turn".
    assert analysis.TRIES <= len(killed(disturbed)) <= 3 * analysis.TRIES
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sabotage"], "no half corpus, nothing hidden"


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("count 7", marks=pytest.mark.slow),
        pytest.param("fsync 0", marks=pytest.mark.slow),
        "fsync 9",
    ],
)
def test_an_ingest_that_is_killed_leaves_no_corpus_and_can_be_repeated(point, source, undisturbed, folder, tmp_path):
    target = tmp_path / "corpus"
    plan_faults(folder, point)
    command = [sys.executable, "-m", "faults.ingester", str(source), str(target), str(folder)]
    ended = subprocess.run(
        command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert len(killed(folder)) == 1
    assert not target.exists()
    assert any(p.name.startswith(".corpus.") for p in tmp_path.iterdir())
    ingester.run(source, target, n_jobs=1)
    assert open_corpus(target).header.uid == undisturbed
    assert sorted(p.name for p in tmp_path.iterdir()) == ["corpus", "sabotage"], "what the dead one left is cleared"
