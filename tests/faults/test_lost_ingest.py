"""An ingest that is killed leaves no corpus, and can be repeated."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from faults import ingester
from faults.saboteur import killed, plan_faults

from sdem_dist import open_corpus


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
