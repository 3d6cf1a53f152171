"""Every estimator describes documents alike: in memory, from a corpus, after skops, and as a copy of itself."""

import warnings
from copy import deepcopy

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import sdem_dist
from sdem_dist import CorpusError, MultinomialNB, PoissonNB, write_corpus
from sdem_dist.catalogue import ESTIMATORS
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.fitting import running

N, WIDTH = 60, 12
RNG = np.random.default_rng(7)
COUNTS = sp.csr_matrix(RNG.poisson(0.8, (N, WIDTH)))
TABLE = RNG.poisson(1.2, (N, WIDTH)).astype(np.float64)
LABELS = np.array(["ant", "bee", "cow"])[np.arange(N) % 3]
TARGETS = RNG.normal(size=N)
SMALL = {"n_components": 2, "n_epochs": 2}
METHODS = ("predict", "predict_proba", "predict_log_proba", "predict_joint_log_proba")
METHODS += ("decision_function", "transform", "score_samples")
each_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def made(name):
    model = getattr(sdem_dist, name)()
    return model.set_params(**{k: v for k, v in SMALL.items() if k in model.get_params()})


def fitted(name):
    """Return an estimator that was trained for a moment, and unlabelled rows for it."""
    model = made(name)
    X = COUNTS if model.spec.layout == "sparse" else (TABLE > 1).astype(float) if name == "BernoulliNB" else TABLE
    return model.fit(X, {"labels": LABELS, "numbers": TARGETS, "nothing": None}[model.spec.target]), X


def methods_of(model):
    found = [method for method in METHODS if hasattr(model, method)]
    assert found
    return found


@each_estimator
def test_the_bits_are_those_in_memory(name, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(running, "BATCH_ENTRIES", 5 * WIDTH)
    model, X = fitted(name)
    dense = model.spec.layout == "dense"
    stored = np.column_stack([X, TARGETS]) if model.spec.target == "numbers" and dense else X
    corpus = write_corpus(tmp_path / "c", stored, dense=dense, shuffle=False, shard_documents=11)
    labels, classes = (np.zeros(N), ("?",)) if dense else (None, ())
    in_memory = MemoryCorpus(X, labels, classes, shuffle=False, dense=dense)
    blocks = da.from_array(X if dense else X.toarray(), chunks=(25, WIDTH))
    for method in methods_of(model):
        expected = np.asarray(getattr(model, method)(X))
        for documents in (corpus, in_memory, blocks):
            found = getattr(model, method)(documents)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            lazy = documents is blocks and method != "score_samples" and name != "GaussianRegressor"
            assert hasattr(found, "__dask_graph__") == lazy
            np.testing.assert_array_equal(np.asarray(found), expected, err_msg=f"{name}.{method}")


@pytest.mark.parametrize("asked", [False, True])
@each_estimator
def test_every_model_is_itself_after_skops_and_as_a_copy(name, asked):
    skops = pytest.importorskip("skops.io")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows
        model, X = fitted(name)
    if asked:  # what predictions need is then there
        model.evaluate(X) if model.spec.target == "nothing" else model.predict(X)
    written = skops.dumps(model)
    found = skops.loads(written, trusted=skops.get_untrusted_types(data=written))
    copies = found, deepcopy(model)
    for method in methods_of(model):
        for again in copies:
            np.testing.assert_array_equal(getattr(again, method)(X), getattr(model, method)(X))


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if made(n).spec.layout == "sparse"])
def test_the_words_have_to_be_the_model_s(name, tmp_path):
    words, model = [f"w{i}" for i in range(WIDTH)], made(name)
    y = LABELS if model.spec.target == "labels" else None
    model.fit(write_corpus(tmp_path / "c", COUNTS, y, targets=TARGETS, vocabulary=words))
    others = {
        "vocabulary": write_corpus(tmp_path / "d", COUNTS, vocabulary=words[::-1]),
        "has 3 words, the model": write_corpus(tmp_path / "n", COUNTS[:, :3]),
        "holds dense documents": write_corpus(tmp_path / "e", TABLE, dense=True),
    }
    for method in (*methods_of(model), *(["score", "perplexity"] if hasattr(model, "perplexity") else [])):
        for said, corpus in others.items():
            with pytest.raises(CorpusError, match=said):
                getattr(model, method)(corpus)


def test_rows_come_in_the_order_of_the_corpus_whose_classes_do_not_matter(tmp_path):
    model, X = fitted("MultinomialNB")
    corpus = write_corpus(tmp_path / "c", X, ["x"] * N, shard_documents=9)
    order = np.concatenate([corpus.ids(shard) for shard in range(len(corpus.header.shards))])
    assert (order != np.arange(N)).any()
    np.testing.assert_array_equal(model.predict_proba(corpus), model.predict_proba(X[order]))


def test_values_without_a_place_are_named(tmp_path):
    model = PoissonNB(n_epochs=1).fit(TABLE, LABELS)
    odd = TABLE.copy()
    odd[4, 2] = -1
    corpus = write_corpus(tmp_path / "c", odd, dense=True, shuffle=False)
    with pytest.raises(CorpusError, match=r"documents 0 to 60 .*Negative values.* row 4, column 2"):
        model.predict(corpus)


def test_two_classes_have_one_number():
    two = np.where(LABELS == "cow", "cow", "other")
    model = MultinomialNB().fit(COUNTS, two)
    found, log_proba = model.decision_function(COUNTS), model.predict_log_proba(COUNTS)
    assert found.shape == (N,)
    np.testing.assert_allclose(found, log_proba[:, 1] - log_proba[:, 0], atol=1e-12)
    np.testing.assert_array_equal(model.classes_[(found > 0).astype(int)], model.predict(COUNTS))
