"""Supervised topics that also explain the words: what documents whose class is hidden bring, and who chooses the weight."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist import (
    CorpusError,
    MultinomialNB,
    SupervisedLDAClassifier,
    SupervisedLDARegressor,
    load_model,
    write_corpus,
)

N, V, K = 1_200, 400, 3
RNG = np.random.default_rng(4)
TOPICS = RNG.dirichlet(np.full(V, 0.1), K)
THETA = RNG.dirichlet(np.full(K, 0.2), N)
X = sp.csr_matrix(np.array([RNG.multinomial(15, theta @ TOPICS) for theta in THETA]))
Y = THETA.argmax(axis=1)
TRAIN, TEST = slice(0, 900), slice(900, N)
HIDDEN = np.where(np.arange(N) % 8 == 0, Y, -1)
SMALL = {"n_components": K, "n_epochs": 8, "evaluate_every": 0}


def same(a, b) -> bool:
    return all(np.asarray(v).tobytes() == np.asarray(w).tobytes() for v, w in zip(a.state_, b.state_, strict=True))


def words_explained(model) -> float:
    """Return the mean ln p(words | theta) of test documents."""
    inference = model.learner_.model.inference
    return float(inference.proportions(model._parameters, model._documents(X[TEST]))[1].mean())


def test_documents_whose_class_is_hidden_help():
    known = HIDDEN[TRAIN] >= 0
    alone = SupervisedLDAClassifier(**SMALL).fit(X[TRAIN][known], HIDDEN[TRAIN][known])
    helped = SupervisedLDAClassifier(words_weight=0.1, unlabelled=-1, **SMALL).fit(X[TRAIN], HIDDEN[TRAIN])
    assert helped.classes_.tolist() == [0, 1, 2]
    assert helped.score(X[TEST], Y[TEST]) > alone.score(X[TEST], Y[TEST]) + 0.02


@pytest.mark.parametrize("merge", ["mean", "sum"])
def test_a_larger_weight_explains_the_words_better(merge):
    fitted = [
        SupervisedLDARegressor(words_weight=w, merge=merge, **SMALL).fit(X[TRAIN], THETA[TRAIN, 0]) for w in (0.0, 10.0)
    ]
    assert words_explained(fitted[1]) > words_explained(fitted[0]) + 1.0
    assert fitted[1].score(X[TEST], THETA[TEST, 0]) > 0.5


def test_held_out_documents_choose_a_weight_that_helps(tmp_path):
    model = SupervisedLDAClassifier(words_weight="auto", unlabelled=-1, **SMALL).fit(X[TRAIN], HIDDEN[TRAIN])
    assert model.learner_.model.words_weight > 0.0
    assert model.learner_.held_out == 0.0
    given = SupervisedLDAClassifier(words_weight=model.learner_.model.words_weight, unlabelled=-1, **SMALL)
    assert same(model, given.fit(X[TRAIN], HIDDEN[TRAIN]))
    model.save(tmp_path / "m.model")
    loaded = load_model(tmp_path / "m.model")
    assert loaded.words_weight == "auto"
    np.testing.assert_array_equal(loaded.predict_proba(X[TEST]), model.predict_proba(X[TEST]))


def test_few_labels_cannot_choose():
    with pytest.raises(ValueError, match="a fifth of the labelled documents"):
        SupervisedLDAClassifier(words_weight="auto", unlabelled=-1).fit(X[:300], HIDDEN[:300])


def test_a_corpus_on_disk_and_a_cluster_give_the_same_bits(tmp_path, client):
    corpus = write_corpus(tmp_path / "c.zarr", X, HIDDEN, unlabelled=-1, shard_documents=300)
    assert sum(corpus.header.class_counts) == 150
    read = corpus.read(0, N)
    assert (read.labels < 0).sum() == N - 150
    model = SupervisedLDAClassifier(words_weight="auto", n_lanes=3, **SMALL | {"n_epochs": 2})
    here = model.fit(corpus)
    assert here.evaluate(corpus)["accuracy"] == pytest.approx(
        here.score(read.to_csr()[read.labels >= 0], read.labels[read.labels >= 0])
    )
    there = SupervisedLDAClassifier(**model.get_params()).fit(corpus, client=client)
    assert same(here, there)


def test_other_classifiers_refuse_a_corpus_that_hides_classes(tmp_path):
    corpus = write_corpus(tmp_path / "c.zarr", X, HIDDEN, unlabelled=-1)
    with pytest.raises(CorpusError, match="1,050 documents without a label"):
        MultinomialNB().fit(corpus)
    by_em = MultinomialNB(loss="nll", unlabelled=-1).fit(corpus)
    assert by_em.score(X, Y) > 0.8
