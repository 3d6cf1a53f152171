"""From sources to predictions through a bucket that is slow, fails and hears no more: the same bits, and nothing half."""

import itertools

import numpy as np
import pytest
from buckets.proxy import CUT, LOST
from cli.commands import run as command

from sdem_dist import load_model
from sdem_dist.storage import buckets

RNG = np.random.default_rng(5)
LINES = "".join(f"{'ab'[i % 2]}\t" + " ".join(f"w{n}" for n in RNG.integers(0, 40, 9)) + "\n" for i in range(120))


def run(base, *, resume=False):
    """Ingest, train and predict; return what came out of it, or the first message of failure."""
    again = "--overwrite" if resume else ""
    for line in (
        f"ingest {base}/s.tsv {base}/c {again}",
        f"train {base}/c {base}/m --epochs 3 --quiet --checkpoint {base}/run {'--resume' if resume else ''}",
        f"predict {base}/m {base}/s.tsv --text 1 -o {base}/t.jsonl {again}",
    ):
        done = command(line)
        if done.exit_code:
            assert isinstance(done.exception, SystemExit), done.exception
            return done.output
    return None


@pytest.fixture
def here(tmp_path):
    """What the same run gives on disk: the model's state, and the table."""
    (tmp_path / "s.tsv").write_text(LINES)
    assert run(tmp_path) is None
    return load_model(tmp_path / "m").state_, (tmp_path / "t.jsonl").read_bytes()


def check(base, here):
    for ours, theirs in zip(load_model(f"{base}/m").state_, here[0], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert buckets.get(f"{base}/t.jsonl") == here[1]
    folders, objects = buckets.children(base)
    assert (folders, objects) == (["c", "run"], ["m", "s.tsv", "t.jsonl"])
    assert len(buckets.children(f"{base}/c")[0]) == 1


@pytest.mark.parametrize("fault", [500, 503, CUT, LOST, "slow"])
def test_faults_that_pass_change_nothing(bucket, proxy, here, fault):
    buckets.put(f"{bucket}/s.tsv", LINES.encode())
    numbers = itertools.count(1)
    proxy.fault = lambda method, path: fault if fault != "slow" and next(numbers) % 7 == 0 else None
    proxy.latency = 0.02 if fault == "slow" else 0.0
    assert run(bucket) is None
    proxy.forward()
    check(bucket, here)


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_after_silence_from_any_put_on_the_same_commands_finish(bucket, proxy, here, monkeypatch, step):
    """For a bucket, a process that is killed is one that says no more."""
    monkeypatch.setitem(buckets.SETTINGS, "retry_config", {"max_retries": 0})
    monkeypatch.setattr(buckets, "TRIES", 1)
    last, ended = 1, False
    while not ended:
        base = f"{bucket}/{last}"
        buckets.put(f"{base}/s.tsv", LINES.encode())
        proxy.fall_silent_after(last)
        ended = run(base) is None
        proxy.forward()
        if not ended:
            assert run(base, resume=True) is None
            check(base, here)
        last += step
    assert last > 20
