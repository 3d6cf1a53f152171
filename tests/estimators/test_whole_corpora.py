"""Every estimator of the catalogue describes the documents of a corpus as it does the same documents in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sdem_dist import CorpusError, GaussianRegressor, MixedNB, MultinomialNB, PoissonNB, open_corpus, write_corpus
from sdem_dist.catalogue import ESTIMATORS, estimator_class
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.fitting import scoring

N, WIDTH = 60, 12
RNG = np.random.default_rng(7)
COUNTS = sp.csr_matrix(RNG.poisson(0.8, (N, WIDTH)))
TABLE = RNG.poisson(1.2, (N, WIDTH)).astype(np.float64)
LABELS = np.array(["ant", "bee", "cow"])[np.arange(N) % 3]
TARGETS = RNG.normal(size=N)
METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "predict_joint_log_proba",
    "decision_function",
    "transform",
    "score_samples",
)
SMALL = {"n_components": 2, "n_epochs": 2}


def fitted(name):
    """Return an estimator that was trained for a moment, and unlabelled rows for it."""
    made = estimator_class(name)()
    made.set_params(**{k: v for k, v in SMALL.items() if k in made.get_params()})
    sparse = made._layout == "sparse"
    X = COUNTS if sparse else (TABLE > 1).astype(float) if name == "BernoulliNB" else TABLE
    y = {"labels": LABELS, "numbers": TARGETS, "nothing": None}[made.spec.target]
    return made.fit(X, y), X


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_bits_are_those_in_memory(name, tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "BATCH_DOCUMENTS", 7)
    model, X = fitted(name)
    dense = model._layout == "dense"
    if model.spec.target == "numbers" and dense:
        stored = np.column_stack([X, TARGETS])
        corpus = write_corpus(tmp_path / "c", stored, dense=True, shuffle=False, shard_documents=11)
    else:
        corpus = write_corpus(tmp_path / "c", X, dense=dense, shuffle=False, shard_documents=11)
    labels, classes = (np.zeros(N), ("?",)) if dense else (None, ())
    in_memory = MemoryCorpus(X, labels, classes, shuffle=False, dense=dense)
    methods = [method for method in METHODS if hasattr(model, method)]
    assert methods
    for method in methods:
        expected = np.asarray(getattr(model, method)(X))
        for documents in (corpus, in_memory):
            found = getattr(model, method)(documents)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected, err_msg=f"{name}.{method}")


def test_rows_come_in_the_order_of_the_corpus(tmp_path):
    model, X = fitted("MultinomialNB")
    corpus = write_corpus(tmp_path / "c", X, LABELS, shard_documents=9)
    order = np.concatenate([corpus.ids(shard) for shard in range(len(corpus.header.shards))])
    assert (order != np.arange(N)).any()
    np.testing.assert_array_equal(model.predict_proba(corpus), model.predict_proba(X[order]))


def test_long_documents_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "BATCH_ENTRIES", 5 * WIDTH)
    model, X = fitted("GaussianNB")
    corpus = write_corpus(tmp_path / "c", X, dense=True, shard_documents=9)
    sizes = [documents.n_documents for _, documents in scoring.documents_in_pieces(open_corpus(corpus.path))]
    assert sizes == [5] * (N // 5)
    assert model.predict(corpus).shape == (N,)


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if estimator_class(n)()._layout == "sparse"])
def test_the_words_have_to_be_the_model_s(name, tmp_path):
    words = [f"w{i}" for i in range(WIDTH)]
    model = estimator_class(name)()
    model.set_params(**{k: v for k, v in SMALL.items() if k in model.get_params()})
    y = LABELS if model.spec.target == "labels" else None
    model.fit(write_corpus(tmp_path / "c", COUNTS, y, targets=TARGETS, vocabulary=words))
    others = {
        "vocabulary": write_corpus(tmp_path / "d", COUNTS, vocabulary=words[::-1]),
        "has 3 words, the model": write_corpus(tmp_path / "n", COUNTS[:, :3]),
        "holds dense documents": write_corpus(tmp_path / "e", TABLE, dense=True),
    }
    methods = [m for m in METHODS if hasattr(model, m)]
    methods += ["score", "perplexity"] if hasattr(model, "perplexity") else []
    for method in methods:
        for said, corpus in others.items():
            with pytest.raises(CorpusError, match=said):
                getattr(model, method)(corpus)


def test_other_classes_or_none_do_not_matter(tmp_path):
    model, X = fitted("MultinomialNB")
    strangers = write_corpus(tmp_path / "c", X, ["x"] * N, shuffle=False)
    np.testing.assert_array_equal(model.predict(strangers), model.predict(X))


def test_values_without_a_place_are_named(tmp_path):
    model = PoissonNB(n_epochs=1).fit(TABLE, LABELS)
    odd = TABLE.copy()
    odd[4, 2] = -1
    corpus = write_corpus(tmp_path / "c", odd, dense=True, shuffle=False)
    with pytest.raises(CorpusError, match=r"documents 0 to 60 .*Negative values.* row 4, column 2"):
        model.predict(corpus)


def test_categories_keep_their_numbers(tmp_path, recwarn):
    frame = pd.DataFrame({"colour": ["red", "blue", "red", "green"] * 5, "size": np.arange(20.0)})
    y = np.arange(20) % 2
    corpus = write_corpus(tmp_path / "c", frame, y, dense=True, shuffle=False)
    model = MixedNB(n_epochs=2).fit(corpus)
    np.testing.assert_array_equal(model.predict_proba(corpus), model.predict_proba(frame))
    other = write_corpus(tmp_path / "d", frame.assign(colour="blue"), y, dense=True)
    with pytest.raises(CorpusError, match="numbers its categories in another way"):
        model.predict(other)
    assert not [w for w in recwarn if "feature names" in str(w.message)]


def test_a_regressor_s_corpus_has_its_target_or_not(tmp_path):
    names = [f"x{i}" for i in range(WIDTH)]
    with_target = write_corpus(
        tmp_path / "c", np.column_stack([TABLE, TARGETS]), dense=True, shuffle=False, vocabulary=[*names, "y"]
    )
    model = GaussianRegressor().fit(with_target)
    without = write_corpus(tmp_path / "d", TABLE, dense=True, shuffle=False, vocabulary=names)
    np.testing.assert_array_equal(model.predict(with_target), model.predict(without))
    for found, expected in zip(
        model.predict(without, return_std=True), model.predict(TABLE, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    for odd in (TABLE[:, 1:], TABLE):
        wrong = write_corpus(tmp_path / f"e{odd.shape[1]}", odd, dense=True, vocabulary=names[::-1][: odd.shape[1]])
        with pytest.raises(CorpusError, match="are not the model's"):
            model.predict(wrong)


def test_two_classes_have_one_number():
    two = np.where(LABELS == "cow", "cow", "other")
    model = MultinomialNB().fit(COUNTS, two)
    found, log_proba = model.decision_function(COUNTS), model.predict_log_proba(COUNTS)
    assert found.shape == (N,)
    np.testing.assert_allclose(found, log_proba[:, 1] - log_proba[:, 0], atol=1e-12)
    np.testing.assert_array_equal(model.classes_[(found > 0).astype(int)], model.predict(COUNTS))
