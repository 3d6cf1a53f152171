"""Documents without labels beside discriminative losses: where training starts, who chooses the weight, same bits everywhere."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import sdem_dist as sd
from sdem_dist.documents import Documents
from sdem_dist.fitting import holdout
from sdem_dist.fitting.holdout import Draws, is_better
from sdem_dist.fitting.starts import start_at, weight_of_margin
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import ClosedForm, Merge
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.heads import Classes, trained_part
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores
from sdem_dist.models.word_counts import SdemState

RNG = np.random.default_rng(0)
N, TEST = 1500, 500
TOPICS = RNG.dirichlet(np.full(300, 0.3), 4)
Y = RNG.integers(0, 4, N + TEST)
X = sp.csr_matrix(np.array([RNG.multinomial(30, 0.4 * TOPICS[k] + 0.6 / 300) for k in Y]))
HIDDEN = np.where(np.arange(N) % 50 < 2, Y[:N], -1)


def documents_of(rows):
    return Documents(rows.data, rows.indices.astype(np.uint32), rows.indptr.astype(np.int64), rows.shape[1])


def test_the_start_has_the_scores_of_the_generative_model_times_the_weight():
    words = RNG.gamma(1.0, 1.0, (20, 3)) + 0.1
    generative = SdemState(words, words.sum(axis=0), np.ones(3), 0.0, 0.0, 0.0)
    model = NaiveBayes(20, Classes(3), log_prior=(0.0, 0.0, 0.0))
    initial = model.start_at(RNG.gamma(2.0, 1.0, 20) + 0.5)
    start = start_at(initial, generative, 0.3)
    documents = documents_of(sp.csr_matrix(RNG.poisson(1.0, (6, 20)).astype(float)))
    ours, theirs = (joint_scores(model.parameters(s), documents) for s in (start, generative))
    lengths = np.asarray(documents.to_csr().sum(axis=1))
    # But for the totals, which are one number a class and word.
    ours += lengths * np.log(start.totals)
    difference = ours - 0.3 * theirs
    np.testing.assert_allclose(difference - difference[:, :1], 0.0, atol=1e-9)
    np.testing.assert_allclose(np.log(start.words).mean(axis=1), np.log(initial.words).mean(axis=1))
    np.testing.assert_array_equal(start_at(initial, generative, 0.0).words, initial.words)


@pytest.mark.parametrize(("owners", "margin"), [((), 0.2), ((0, 0, 1, 2), 1.0)])
def test_the_weight_puts_the_median_margin_where_it_is_to_be(owners, margin):
    n = len(owners) or 3
    words = RNG.gamma(1.0, 1.0, (20, n)) + 0.1
    generative = SdemState(words, words.sum(axis=0), np.ones(n), 0.0, 0.0, 0.0)
    rows = sp.csr_matrix(RNG.poisson(3.0, (51, 20)).astype(float))
    scores = np.asarray(rows @ np.log(words / words.sum(axis=0)))
    if owners:  # a class scores with the sum of its components
        scores = np.column_stack([np.logaddexp(scores[:, 0], scores[:, 1]), scores[:, 2:]])
    scores = np.sort(scores, axis=1)
    weight = weight_of_margin(generative, documents_of(rows), margin, owners)
    assert np.median(weight * (scores[:, -1] - scores[:, -2])) == pytest.approx(margin, rel=0.05)
    # As if a document of weight 2 came twice, and one of weight 0 not at all.
    times = RNG.integers(0, 3, 51)
    weighed = replace(documents_of(rows), weights=times.astype(float))
    repeated = documents_of(rows[np.repeat(np.arange(51), times)])
    assert weight_of_margin(generative, weighed, margin, owners) == weight_of_margin(
        generative, repeated, margin, owners
    )
    assert weight_of_margin(generative, replace(weighed, weights=np.zeros(51)), margin, owners) == 1.0
    flat = generative._replace(words=np.ones((20, n)), totals=np.full(n, 20.0))
    assert weight_of_margin(flat, documents_of(rows), margin) == 1.0


@pytest.mark.parametrize("kind", ["em", "sdem"])
def test_labelled_documents_are_held_out_and_no_others(kind):
    model = NaiveBayes(X.shape[1], Classes(4))
    learner = SdEM(model, 100.0, Merge() if kind == "sdem" else ClosedForm(), seed=3)
    lane = Lane(0, 0, 0, 0, N, N)
    documents = replace(documents_of(X[:N]), labels=HIDDEN.astype(np.int32), weights=np.ones(N))
    out = ~trained_part(3, 0, N, 0.5) & (HIDDEN >= 0)
    assert 0 < out.sum() < (HIDDEN >= 0).sum()
    held = replace(learner, held_out=0.5)
    weights = held.trained_on(held.prepare(documents), lane).weights
    np.testing.assert_array_equal(weights, np.where(out, 0.0, 1.0))
    if kind == "sdem":  # a hidden class has no rivals: it asks for no step
        found = learner.map(learner.init(), learner.prepare(documents), lane)
        assert found.weight == (HIDDEN >= 0).sum()


def test_where_all_have_labels_nothing_changes():
    plain, named = sd.MultinomialNB().fit(X[:N], Y[:N]), sd.MultinomialNB(unlabelled=-1).fit(X[:N], Y[:N])
    np.testing.assert_array_equal(plain.state_.words, named.state_.words)


def test_where_they_mislead_they_hardly_count():
    # Most words tell of what nobody asks for; a few words of which each document has one tell the class.
    rng = np.random.default_rng(1)
    other, y = rng.integers(0, 2, N + TEST), rng.integers(0, 2, N + TEST)
    far = rng.dirichlet(np.full(100, 0.1), 2)
    words = np.array(
        [
            np.r_[rng.multinomial(60, far[o]), rng.multinomial(4, np.eye(2)[k] * 0.8 + 0.1)]
            for o, k in zip(other, y, strict=True)
        ]
    )
    rows, hidden = sp.csr_matrix(words), np.where(np.arange(N) % 15 == 0, y[:N], -1)
    forced = sd.MultinomialNB(unlabelled=-1, unlabelled_weight=0.1).fit(rows[:N], hidden)
    free = sd.MultinomialNB(unlabelled=-1).fit(rows[:N], hidden)
    alone = sd.MultinomialNB(unlabelled=-1, unlabelled_weight=0.0).fit(rows[:N], hidden)
    assert free.score(rows[N:], y[N:]) > forced.score(rows[N:], y[N:]) + 0.05
    assert free.score(rows[N:], y[N:]) > alone.score(rows[N:], y[N:]) - 0.02


def test_labelled_documents_alone_are_taken_where_they_are_better_beyond_doubt(monkeypatch):
    def of(losses, hits):
        return Draws(np.array(losses), np.array(hits), np.ones(len(losses)))

    helped = of([0.5, 0.6, 0.7], [0.8, 0.8, 0.8])
    assert is_better(helped, of([0.4, 0.5, 0.6], [0.8, 0.8, 0.8]))
    assert not is_better(helped, of([0.4, 0.5, 0.6], [0.8, 0.7, 0.8]))
    assert not is_better(helped, of([0.1, 0.7, 0.8], [0.9, 0.9, 0.9]))
    monkeypatch.setattr(holdout, "is_better", lambda helped, alone, gate: True)
    hidden = np.where(np.arange(N) % 5 == 0, Y[:N], -1)
    free = sd.MultinomialNB(unlabelled=-1).fit(X[:N], hidden)
    alone = sd.MultinomialNB(unlabelled=-1, unlabelled_weight=0.0).fit(X[:N], hidden)
    assert free.best_entry_["unlabelled_weight"] == 0.0
    np.testing.assert_array_equal(free.state_.words, alone.state_.words)


@pytest.mark.parametrize("n", [N, 600])
def test_weight_0_is_a_corpus_of_the_labelled_documents(tmp_path, n):
    hidden = np.where(np.arange(n) % 3 == 0, Y[:n], -1)
    half = sd.write_corpus(tmp_path / "half.zarr", X[:n], hidden, unlabelled=-1, shuffle=False)
    known = sd.write_corpus(tmp_path / "known.zarr", X[:n][hidden >= 0], hidden[hidden >= 0], shuffle=False)
    ours = sd.MultinomialNB(unlabelled=-1, unlabelled_weight=0.0, evaluate_every=1)
    ours.fit(half, validation=(X[N:], Y[N:]))
    plain = sd.MultinomialNB(evaluate_every=1).fit(known, validation=(X[N:], Y[N:]))
    np.testing.assert_array_equal(ours.predict_proba(X[N:]), plain.predict_proba(X[N:]))
    assert (
        ours.best_entry_["validation_accuracy"] == plain.best_entry_["validation_accuracy"] == plain.score(X[N:], Y[N:])
    )


@pytest.mark.parametrize("weight", [0.0, 0.003])
def test_the_epoch_that_patience_keeps_has_the_weight(weight):
    few = sd.MultinomialNB(unlabelled=-1, unlabelled_weight=weight, patience=1, n_epochs=12)
    few.fit(X[:N], np.where(np.arange(N) % 5 == 0, Y[:N], -1), validation=(X[N:], Y[N:]))
    assert few.best_entry_["epoch"] < few.n_iter_
    assert few.best_entry_["unlabelled_weight"] == weight
    assert {"held_out_accuracy", "held_out_log_loss"} <= set(few.best_entry_)


def test_few_labels_are_helped():
    hidden = np.full(N, -1)
    for k in range(4):
        hidden[np.flatnonzero(Y[:N] == k)[:4]] = k
    known = hidden >= 0
    alone = sd.MultinomialNB().fit(X[:N][known], hidden[known])
    model = sd.MultinomialNB(unlabelled=-1).fit(X[:N], hidden)
    assert model.best_entry_["unlabelled_weight"] > 0
    assert model.score(X[N:], Y[N:]) > alone.score(X[N:], Y[N:]) + 0.03
    assert model.loss_ == "hinge" != alone.loss_
    zero = sd.MultinomialNB(loss="hinge", unlabelled=-1, unlabelled_weight=0.0).fit(X[:N], hidden)
    assert model.temperature_ == zero.temperature_  # that of folds of the labelled documents, with the same loss
    assert model.temperature_ != alone.temperature_


def test_labelled_documents_say_how_rare_a_word_is():
    rows = sp.csr_matrix(np.array([[1, 0, 1], [0, 1, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0]]))
    model = sd.MultinomialNB(unlabelled=-1, n_jobs=1).fit(rows, [0, 1, -1, -1, -1])
    assert model.weighting_.n_documents == 2
    assert model.document_frequency_.tolist() == [1, 1, 2]
    other = sd.MultinomialNB(unlabelled=-1, min_df=2, n_jobs=1).fit(rows, [0, 1, -1, -1, -1])
    assert other.document_frequency_.tolist() == [1, 0, 2]  # min_df counts all documents


def test_what_does_not_go_together_is_named():
    with pytest.raises(ValueError, match="steps='paper' takes no unlabelled documents"):
        sd.MultinomialNB(unlabelled=-1, steps="paper").fit(X[:N], HIDDEN)
    with pytest.raises(ValueError, match="class_weight=None"):
        sd.MultinomialNB(loss="nll", unlabelled=-1, class_weight="balanced").fit(X[:N], HIDDEN)
    with pytest.raises(ValueError, match="partial_fit takes documents without a label with loss='nll' only"):
        sd.MultinomialNB(unlabelled=-1).partial_fit(X[:N], HIDDEN, classes=[0, 1, 2, 3])


def test_few_labels_choose_nothing_whether_or_not_they_are_calibrated():
    y = np.where(np.arange(N) < 24, Y[:N], -1)
    one, other = (sd.MultinomialNB(unlabelled=-1, calibrate=c).fit(X[:N], y) for c in (True, False))
    assert one.best_entry_["unlabelled_weight"] == other.best_entry_["unlabelled_weight"] > 0
    assert "held_out_accuracy" not in other.best_entry_ and other.temperature_ == 1.0
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_they_have_to_beat_the_default_of_labelled_documents(monkeypatch):
    hidden, seen = np.where(np.arange(N) % 7 == 0, np.arange(N) // 7 % 20, -1), {}
    monkeypatch.setattr(holdout, "is_better", lambda helped, alone, gate: seen[loss].append(alone) or False)
    for loss in ("auto", "ncll", "hinge"):
        seen[loss] = []
        model = sd.MultinomialNB(loss=loss, unlabelled=-1, n_epochs=2).fit(X[:N], hidden)
        assert model.loss_ == ("ncll" if loss == "ncll" else "hinge")
    auto, ncll, hinge = (seen[loss][0].log_loss for loss in ("auto", "ncll", "hinge"))
    np.testing.assert_array_equal(auto, ncll)
    assert not np.array_equal(auto, hinge)
