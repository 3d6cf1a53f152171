"""Models, logs and sources in a bucket are those on disk, also of a bucket that is slow, fails and hears no more."""

import copy
import itertools
import json
import warnings
from contextlib import suppress

import numpy as np
import pytest
from buckets.proxy import CUT, LOST
from buckets.servers import everywhere
from buckets.test_corpora import X, Y, same_states
from cli.commands import run as command
from reference.trained_bits import Stop
from text.sources import written

from sdem_dist import ModelError, MultinomialNB, ingest, load_model, open_corpus
from sdem_dist.engine.callbacks import JsonLines
from sdem_dist.errors import OtherRunError
from sdem_dist.storage import buckets
from sdem_dist.storage.buckets import place

ROWS = [("ab"[i % 2], f"word{i % 7} und\u00fc{i % 5} text{i}") for i in range(90)]
FORMS = ["s.tsv", "s.tsv.gz", "s.tsv.xz", "s.tsv.zst", "s.parquet", "s.jsonl", "s.csv"]


@everywhere
def test_a_model(bucket, tmp_path):
    model = MultinomialNB(n_epochs=2).fit(X, Y)
    model.save(tmp_path / "m")
    model.save(f"{bucket}/m")
    assert buckets.get(f"{bucket}/m") == (tmp_path / "m").read_bytes()
    np.testing.assert_array_equal(load_model(f"{bucket}/m").predict_proba(X), model.predict_proba(X))
    MultinomialNB(n_epochs=1).fit(X, Y).save(f"{bucket}/m")
    assert load_model(f"{bucket}/m").n_iter_ == 1 and list(buckets.below(bucket)) == [f"{bucket}/m"]


@everywhere
def test_models_never_replace_other_things(bucket):
    model = MultinomialNB(n_epochs=1).fit(X, Y)
    buckets.put(f"{bucket}/notes", b"dear")
    buckets.put(f"{bucket}/c/zarr.json", b"{}")
    for name, words in (("notes", "is not a model"), ("c", "is a folder")):
        np.testing.assert_raises_regex(ModelError, words, model.save, f"{bucket}/{name}")
        np.testing.assert_raises(ModelError, load_model, f"{bucket}/{name}")
    np.testing.assert_raises_regex(ModelError, "no such file", load_model, f"{bucket}/nothing")
    assert buckets.get(f"{bucket}/notes") == b"dear"


@everywhere
def test_an_interrupted_run_goes_on(bucket):
    def stop(event):
        if type(event).__name__ == "CheckpointWritten" and event.epoch == 2:
            raise Stop

    settings = {"n_epochs": 4, "random_state": 0}
    whole = MultinomialNB(**settings).fit(X, Y)
    np.testing.assert_raises(Stop, MultinomialNB(**settings).fit, X, Y, checkpoint=f"{bucket}/run", callbacks=[stop])
    with pytest.raises(ModelError) as caught:
        MultinomialNB(**settings).fit(X, Y, checkpoint=f"{bucket}/run")
    assert not isinstance(caught.value, OtherRunError)
    with pytest.raises(OtherRunError):
        MultinomialNB(n_epochs=4, random_state=1).fit(X, Y, checkpoint=f"{bucket}/run", resume=True)
    same_states(MultinomialNB(**settings).fit(X, Y, checkpoint=f"{bucket}/run", resume=True).state_, whole.state_)


def test_checkpoints_that_may_not_be_removed_do_not_end_a_run(bucket, proxy):
    written, refused = [], []

    def fault(method, path):
        written.extend([path] if method == "PUT" and "/checkpoint-0" in path else [])
        if method in ("DELETE", "POST") and written:
            refused.append(path)
            return 403
        return None

    proxy.fault, proxy.code = fault, "AccessDenied"
    MultinomialNB(n_epochs=4).fit(X, Y, checkpoint=f"{bucket}/run")
    assert refused


@everywhere
def test_a_log(bucket, proxy):
    def fail(event):
        raise RuntimeError("no luck")

    for callbacks in ([], [fail], []):
        with suppress(RuntimeError):
            MultinomialNB(n_epochs=1).fit(X, Y, callbacks=[JsonLines(f"{bucket}/log"), *callbacks])
    events = [json.loads(line)["event"] for line in buckets.get(f"{bucket}/log").splitlines()]
    assert events.count("RunStarted") == 3 and events.count("RunEnded") == 2
    log = JsonLines(f"{bucket}/log")
    proxy.fault = lambda method, path: 403
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        MultinomialNB(n_epochs=1).fit(X, Y, callbacks=[log])
    assert "the run continues" in str(said[0].message)


def write_sources(folder):
    for name in FORMS:
        written(folder / name, ROWS)
    (folder / "s.svm").write_text("".join(f"{i % 2} {i % 9 + 1}:2\n" for i in range(90)))
    for i, (label, words) in enumerate(ROWS):
        name = folder / "classes" / label / (f"{i}.txt" if i % 3 else f"more {i % 2}/{i} \u00e9.txt")
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_text(words)
    (folder / "classes" / "a" / ".hidden").write_text("not this")


@everywhere
def test_sources(bucket, tmp_path):
    write_sources(tmp_path)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            buckets.put(f"{bucket}/{file.relative_to(tmp_path)}", file.read_bytes())
    for name in [*FORMS, "s.svm", "classes"][:: 1 if bucket.startswith("s3") else 4]:
        uids = []
        for base in (str(tmp_path), bucket):
            ingest(f"{base}/{name}", f"{base}/{name}.zarr")
            uids.append(open_corpus(f"{base}/{name}.zarr").header.uid)
        assert uids[0] == uids[1], name


@everywhere
def test_ranges_of_an_object(bucket, monkeypatch):
    monkeypatch.setattr(buckets, "BLOCK", block := 1 << 16)
    content = np.random.default_rng(0).bytes(2 * block + 12_345)
    buckets.put(f"{bucket}/o", content)
    url = place(f"{bucket}/o")
    assert url.stat().st_size == len(content)
    with url.open("rb") as file:
        assert file.read() == content
    with url.open("rb") as file:
        for start in (len(content) - 5, 0, block - 3, 2 * block, 7):
            file.seek(start)
            assert file.read(9) == content[start : start + 9]
        buckets.put(f"{bucket}/o", content[::-1])
        file.seek(block + 5)
        np.testing.assert_raises_regex(OSError, "replaced while it was being read", file.read, block)
    assert copy.deepcopy(url) == url and str(copy.deepcopy(url)) == str(url)
    assert url.with_name("p").suffix == "" and not (url / "x").exists()


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


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """What the same run gives on disk: the model's state, and the table."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "s.tsv").write_text(LINES)
    assert run(folder) is None
    return load_model(folder / "m").state_, (folder / "t.jsonl").read_bytes()


def check(base, here):
    same_states(load_model(f"{base}/m").state_, here[0])
    assert buckets.get(f"{base}/t.jsonl") == here[1]
    folders, objects = buckets.children(base)
    assert (folders, objects) == (["c", "run"], ["m", "s.tsv", "t.jsonl"])
    assert len(buckets.children(f"{base}/c")[0]) == 1


FAULTS = [(scheme, fault) for scheme in ("s3", "gs", "abfs") for fault in (500, 503, CUT, LOST, "slow")]
FAULTS = [pytest.param(*f, marks=[pytest.mark.slow] * (f[0] != "s3" and f[1] not in (503, LOST))) for f in FAULTS]


@pytest.mark.parametrize(("scheme", "fault"), FAULTS, indirect=["scheme"])
def test_faults_that_pass_change_nothing(bucket, proxy, here, fault):
    buckets.put(f"{bucket}/s.tsv", LINES.encode())
    numbers = itertools.count(1)
    proxy.fault = lambda method, path: fault if fault != "slow" and next(numbers) % 7 == 0 else None
    proxy.latency = 0.02 if fault == "slow" else 0.0
    assert run(bucket) is None
    proxy.forward()
    check(bucket, here)


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
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
