"""Workers need nothing but URLs: they read and write the bucket by themselves."""

import dask
import numpy as np
import pyarrow.parquet
import pytest
from buckets.servers import everywhere
from buckets.test_corpora import X, Y, parts_of, same_states
from cli.commands import ok, run
from sklearn.base import clone

import sdem_dist as sd
from sdem_dist.cli.ingest import documents_of
from sdem_dist.cli.options import Source
from sdem_dist.storage import buckets
from sdem_dist.storage.buckets import place
from sdem_dist.text import Reading, VectorizerSettings, splits, terms

dask_array = pytest.importorskip("dask.array")

RNG = np.random.default_rng(3)
LINES = [f"{'ab'[i % 2]}\t" + " ".join(f"w{n}" for n in RNG.integers(0, 400, 12)) for i in range(300)]


@pytest.fixture
def source(bucket, tmp_path, monkeypatch):
    """The URL of a source that several tasks read; beside it is the local one."""
    monkeypatch.setattr(splits, "INGEST_BYTES", 5000)
    monkeypatch.setattr(terms, "MERGED_NODES", 300)
    text = "".join(f"{line}\n" for line in LINES).encode()
    (tmp_path / "s.tsv").write_bytes(text)
    buckets.put(f"{bucket}/s.tsv", text)
    return f"{bucket}/s.tsv"


@everywhere
def test_ingest_from_bucket_to_bucket(bucket, source, client, tmp_path):
    settings = VectorizerSettings(min_df=2, max_features=250)
    options = {"held_out": 0.2, "shard_documents": 100}
    sd.ingest(tmp_path / "s.tsv", tmp_path / "c", settings, held_out_path=tmp_path / "h", **options)
    sd.ingest(source, f"{bucket}/c", settings, held_out_path=f"{bucket}/h", client=client, **options)
    for name in "ch":
        ours, theirs = sd.open_corpus(f"{bucket}/{name}"), sd.open_corpus(tmp_path / name)
        assert ours.header.uid == theirs.header.uid
        assert ours.read(0, ours.n_documents).n_documents == theirs.n_documents
    assert parts_of(bucket) == {"s.tsv", "c", "h"}
    assert all(len(parts_of(f"{bucket}/{name}")) == 2 for name in "ch")


def test_an_ingest_that_fails_leaves_nothing(bucket, source, client):
    buckets.put(f"{bucket}/bad.tsv", buckets.get(source) + b"no label\n")
    with pytest.raises(sd.IngestError) as caught:
        sd.ingest(f"{bucket}/bad.tsv", f"{bucket}/c", client=client)
    assert (caught.value.path, caught.value.record) == (f"{bucket}/bad.tsv", 301)
    assert parts_of(bucket) == {"s.tsv", "bad.tsv"}


def test_an_interrupted_evaluation_is_begun_again(bucket, source, client):
    sd.MultinomialNB(n_epochs=1).fit(sd.open_corpus(sd.ingest(source, f"{bucket}/c").path)).save(f"{bucket}/m")
    given = [source], Source(Reading(), "raise"), sd.load_model(f"{bucket}/m")
    where = {"beside": place(f"{bucket}/m"), "client": client}
    with pytest.raises(KeyboardInterrupt), documents_of(*given, **where):
        raise KeyboardInterrupt
    assert parts_of(bucket) > {"s.tsv", "c", "m"}
    with documents_of(*given, **where) as documents:
        assert documents.n_documents == len(LINES)
    assert parts_of(bucket) == {"s.tsv", "c", "m"}


def test_dask_arrays_become_corpora_in_a_bucket_and_train(bucket, client, tmp_path):
    here = sd.write_corpus(tmp_path / "c", X, Y, shard_documents=90)
    parts, settings = dask_array.from_array(X.toarray(), chunks=(70, 40)), {"n_epochs": 2, "random_state": 0}
    there = sd.write_corpus(f"{bucket}/c", parts, Y, shard_documents=90, client=client)
    assert there.header.uid == here.header.uid
    assert {name.split("-")[0] for name in parts_of(f"{bucket}/c")} == {"contents", "zarr.json"}
    assert not [found for found in buckets.below(f"{bucket}/c") if "scratch" in found]
    model = sd.MultinomialNB(**settings).fit(there, client=client, checkpoint=f"{bucket}/run")
    same_states(model.state_, sd.MultinomialNB(**settings).fit(here).state_)
    found = []
    (tmp_path / "scratch").mkdir()
    for scratch in (str(tmp_path / "scratch"), f"{bucket}/scratch"):
        with dask.config.set({"sdem-dist.scratch": scratch}):
            found.append(sd.MultinomialNB(**settings).fit(parts, Y, client=client).state_)
    same_states(*found)
    assert parts_of(bucket) == {"c", "run"} and not list((tmp_path / "scratch").iterdir())


@everywhere
def test_from_bucket_to_bucket_in_the_shell(bucket, scheme, source, tmp_path):
    ok(f"ingest {source} {bucket}/c")
    ok(f"train {bucket}/c {bucket}/m --epochs 2 --quiet --checkpoint {bucket}/run --log {bucket}/log")
    ok(f"train {tmp_path}/s.tsv {tmp_path}/m --epochs 2 --quiet")
    ok(f"evaluate {bucket}/m {bucket}/c --errors {bucket}/wrong.csv")
    ok(f"predict {bucket}/m {source} --text 1 -o {bucket}/t.parquet")
    ok(f"predict {tmp_path}/m {tmp_path}/s.tsv --text 1 -o {tmp_path}/t.parquet")
    with place(f"{bucket}/t.parquet").open("rb") as file:
        assert pyarrow.parquet.read_table(file).equals(pyarrow.parquet.read_table(tmp_path / "t.parquet"))
    other = f"{scheme}://nowhere"
    wrong = {
        source: "would overwrite",
        f"{bucket}/c/t.tsv": "inside the corpus",
        f"{other}/t.tsv": f"{other} does not exist",
    }
    for out, words in wrong.items():
        done = run(f"predict {bucket}/m {source} --text 1 -o {out}")
        assert done.exit_code and words in done.output
    assert parts_of(bucket) == {"s.tsv", "c", "m", "run", "log", "t.parquet", "wrong.csv"}


def test_stretches_without_terms_of_the_last_range(bucket, source, client, tmp_path):
    """The last range begins where the terms of some stretches end."""
    early = [f"{'ab'[i % 2]}\t" + " ".join(f"a{n}" for n in RNG.integers(0, 400, 12)) for i in range(600)]
    text = "".join(f"{line}\n" for line in early + LINES + ["a\ta1 a2"]).encode()
    (tmp_path / "s.tsv").write_bytes(text)
    buckets.put(source, text)
    sd.ingest(tmp_path / "s.tsv", tmp_path / "c")
    sd.ingest(source, f"{bucket}/c", client=client)
    assert sd.open_corpus(f"{bucket}/c").header.uid == sd.open_corpus(tmp_path / "c").header.uid


SEARCHES = {
    "words": (sd.MultinomialNB(), {"loss": ["nll"]}, {}),
    "topics": (sd.LDAClassifier(n_components=2, n_epochs=2), {"n_components": [1]}, {}),
    "table": (sd.GaussianNB(n_epochs=2), {"loss": ["nll"]}, {"dense": True}),
    "clusters": (sd.KMeans(3, n_epochs=2), {"n_clusters": [2]}, {}),
    "mixture": (sd.SdemMixtureClassifier(1, n_epochs=2), {"loss": ["hinge"]}, {"dense": True}),
    "numbers": (sd.SupervisedLDARegressor(3, n_epochs=2), {"n_components": [2]}, {"targets": Y * 1.0}),
}


SLOW_SEARCHES = ("topics", "clusters", "mixture")  # one a layout and a target is with the quick tests


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW_SEARCHES)) for n in SEARCHES])
def test_searches_with_corpus_and_checkpoints_in_a_bucket(name, bucket, client, tmp_path):
    estimator, space, how = SEARCHES[name]
    corpora = [
        sd.write_corpus(
            where, X.toarray() if "dense" in how else X, None if "targets" in how else Y, shard_documents=80, **how
        )
        for where in (tmp_path / "c", f"{bucket}/c")
    ]
    search, run = sd.CorpusSearchCV(estimator, space, cv=2, n_jobs=1, n_trials=None), f"{bucket}/run {name}"
    here = clone(search).fit(corpora[0])
    for resume in (False, True):
        found = clone(search).fit(corpora[1], client=client, checkpoint=run, resume=resume)
        assert buckets.below(run) and found.best_params_ == here.best_params_
        for ours, theirs in zip(found.trials_, here.trials_, strict=True):
            assert ours.error == theirs.error == ""
            for metric, scores in theirs.scores.items():
                np.testing.assert_array_equal(ours.scores[metric], scores)
