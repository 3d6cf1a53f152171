"""Documents whose class is hidden: who takes them, where training starts, who is helped, and by what weight."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from reference.random_documents import documents_of
from scipy.special import softmax
from sklearn.datasets import load_iris

import sdem_dist as sd
from sdem_dist.errors import CorpusError, OtherRunError
from sdem_dist.fitting import holdout
from sdem_dist.fitting.holdout import is_better
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import ClosedForm, Merge
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.starts import start_at, weight_of_margin
from sdem_dist.models.heads import Classes, trained_part
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores
from sdem_dist.models.word_counts import SdemState

RNG = np.random.default_rng(0)
N, TEST = 1500, 500
TOPICS, PART = RNG.dirichlet(np.full(300, 0.3), 4), RNG.integers(0, 4, N + TEST)
CLASSES = PART // 2
X = sp.csr_matrix(np.array([RNG.multinomial(30, 0.4 * TOPICS[k] + 0.6 / 300) for k in PART]))
Y, ROWS, NEW = CLASSES[:N], X[:N], (X[N:], CLASSES[N:])
HIDDEN = np.where(np.arange(N) % 50 == 0, Y, -1)
KNOWN = HIDDEN >= 0
FEW = np.where(np.arange(N) % 50 < 2, PART[:N], -1)
CENTRES = np.array([[0.0, 0.0], [4.0, 4.0], [0.0, 4.0], [4.0, 0.0]])
TABLE = CENTRES[PART] + RNG.normal(size=(N + TEST, 2))
SMALL = {"n_components": 4, "n_epochs": 8, "evaluate_every": 0}
MIXTURE = {"n_components": 2, "components": "multinomial"}
HELPED = {
    "EM": (sd.MultinomialNB, {"loss": "nll", "n_epochs": 20}),
    "EM of mixtures": (sd.EMMixtureClassifier, MIXTURE),
    "sdEM of mixtures": (sd.SdemMixtureClassifier, MIXTURE),
    "topics that explain words": (sd.SupervisedLDAClassifier, {**SMALL, "words_weight": 0.1}),
}


@pytest.mark.parametrize("name", HELPED)
def test_they_help_where_few_have_labels(name):
    kind, settings = HELPED[name]
    alone = kind(**settings).fit(ROWS[KNOWN], HIDDEN[KNOWN])
    helped = kind(**settings, unlabelled=-1).fit(ROWS, HIDDEN)
    assert helped.classes_.tolist() == [0, 1] and helped.score(*NEW) > alone.score(*NEW) + 0.04


def test_they_help_tables():
    table, species = load_iris(return_X_y=True)
    rng = np.random.default_rng(4)
    labelled = np.concatenate([rng.choice(np.flatnonzero(k == species), 4, replace=False) for k in range(3)])
    y = np.full(len(species), -1)
    y[labelled] = species[labelled]
    plain = {"loss": "nll", "var_smoothing": 1e-3}
    alone = sd.GaussianNB(**plain).fit(table[labelled], species[labelled])
    together = sd.GaussianNB(**plain, unlabelled=-1).fit(table, y)
    assert together.classes_.tolist() == [0, 1, 2] and together.class_count_.tolist() == [4, 4, 4]
    assert together.score(table, species) > alone.score(table, species)
    ignored = sd.GaussianNB(unlabelled=-1, unlabelled_weight=0.0, loss="nll").fit(table, y)
    np.testing.assert_allclose(ignored.theta_, alone.theta_, rtol=1e-9)


def test_em_by_hand():
    model = sd.MultinomialNB(loss="nll", unlabelled=-1, unlabelled_weight=0.5, n_epochs=4).fit(ROWS, HIDDEN)
    shares = (HIDDEN[:, None] == np.arange(2)).astype(float)
    for _ in range(4):
        words = (ROWS.T @ shares).T + 1.0
        log_words = np.log(words / words.sum(axis=1, keepdims=True))
        log_prior = np.log(shares.sum(axis=0) / shares.sum())
        shares[~KNOWN] = 0.5 * softmax(ROWS[~KNOWN] @ log_words.T + log_prior, axis=1)
    np.testing.assert_allclose(model.feature_log_prob_, log_words, rtol=1e-9)
    np.testing.assert_allclose(model.class_log_prior_, log_prior, rtol=1e-9)


def test_an_iteration_of_em_shares_hidden_documents_among_all_components():
    # Without labels of its own a document has the posterior of a component of any class, times the weight.
    half = {**MIXTURE, "unlabelled": -1, "unlabelled_weight": 0.5}
    first, second = (sd.EMMixtureClassifier(**half, n_epochs=n).fit(ROWS, HIDDEN) for n in (1, 2))
    scores = ROWS @ first.theta_.T + first.log_weights_.max(axis=0)
    mine = np.array([0, 0, 1, 1]) == HIDDEN[:, None]
    shares = softmax(np.where(mine | ~KNOWN[:, None], scores, -np.inf), axis=1) * np.where(KNOWN, 1.0, 0.5)[:, None]
    expected = ROWS.T @ shares + 1.0
    np.testing.assert_allclose(np.exp(second.theta_).T, expected / expected.sum(axis=0), rtol=1e-8)


def test_minus_one_is_a_class_unless_said_otherwise(tmp_path):
    assert sd.MultinomialNB(n_epochs=1).fit(ROWS, HIDDEN).classes_.tolist() == [-1, 0, 1]
    assert sd.GaussianNB(loss="nll").fit(TABLE[:N], HIDDEN).classes_.tolist() == [-1, 0, 1]
    for loss in ("nll", "hinge"):
        assert sd.MultinomialNB(loss=loss, unlabelled=-1, n_epochs=1).fit(ROWS, HIDDEN).classes_.tolist() == [0, 1]
    texts = HIDDEN.astype(str)  # as a file has them
    assert sd.MultinomialNB(loss="nll", unlabelled=-1, n_epochs=1).fit(ROWS, texts).classes_.tolist() == ["0", "1"]
    with pytest.raises(CorpusError, match="the class -1, which is also the value of unlabelled"):
        sd.MultinomialNB(unlabelled=-1).fit(sd.write_corpus(tmp_path / "c", ROWS, texts))


def test_a_resumed_run_knows_another_weight(tmp_path):
    def model(weight: float) -> sd.MultinomialNB:
        return sd.MultinomialNB(unlabelled=-1, unlabelled_weight=weight, calibrate=False, n_epochs=2)

    model(0.1).fit(ROWS, HIDDEN, checkpoint=tmp_path / "k")
    for weight, named in ((0.2, r"unlabelled_weight 0.1"), (0.0, "other settings")):  # 0: labelled documents alone
        with pytest.raises(OtherRunError, match=named):
            model(weight).fit(ROWS, HIDDEN, checkpoint=tmp_path / "k", resume=True)


REFUSED = {
    "MultinomialNB": "1,470 documents without a label",
    "LDAClassifier": "does not support: use MultinomialNB, SupervisedLDAClassifier, or mixtures",
    "MultiplicativeMixtureClassifier": "does not support: use MultinomialNB, SupervisedLDAClassifier, or mixtures",
    "MultiLabelNB": "MultiLabelNB supports only with several labels",
    "EMMixtureClassifier": r"only if unlabelled is set \(unlabelled=-1\)",
}


def test_others_say_who_takes_them(tmp_path):
    corpus = sd.write_corpus(tmp_path / "c.zarr", ROWS, HIDDEN, unlabelled=-1)
    for name, said in REFUSED.items():
        with pytest.raises(CorpusError, match=said):
            getattr(sd, name)(**({"components": "multinomial"} if name == "EMMixtureClassifier" else {})).fit(corpus)
    assert sd.MultinomialNB(loss="nll", unlabelled=-1).fit(corpus).score(ROWS, Y) > 0.8


SHARES = np.random.default_rng(4).dirichlet(np.full(4, 0.2), N + TEST)
FEWER_WORDS = np.random.default_rng(0).dirichlet(np.full(200, 0.2), 4)
OF_SHARES = sp.csr_matrix(np.array([RNG.multinomial(15, shares @ FEWER_WORDS) for shares in SHARES]))
EIGHTH = np.where(np.arange(N) % 8 == 0, SHARES[:N].argmax(axis=1), -1)


@pytest.mark.parametrize("merge", ["mean", "sum"])
def test_a_larger_weight_explains_the_words_better(merge):
    def explained(model) -> float:
        p = model.transform(OF_SHARES[N:]) @ model.components_
        return float(OF_SHARES[N:].multiply(np.log(p)).sum() / TEST)

    models = (sd.SupervisedLDARegressor(words_weight=weight, merge=merge, **SMALL) for weight in (0.0, 10.0))
    plain, weighted = (model.fit(OF_SHARES[:N], SHARES[:N, 0]) for model in models)
    assert explained(weighted) > explained(plain) + 1.0 and weighted.score(OF_SHARES[N:], SHARES[N:, 0]) > 0.5


def test_a_search_finds_a_weight_that_helps():
    of_labels = sd.SupervisedLDAClassifier(unlabelled=-1, **SMALL)
    search = sd.CorpusSearchCV(of_labels, {"words_weight": [0.0, 0.1]}, metric="log-loss", cv=2)
    assert search.fit(OF_SHARES[:N], EIGHTH).best_params_ == {"words_weight": 0.1}


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
    difference = ours + lengths * np.log(start.totals) - 0.3 * theirs
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
    of_copies, of_weights = (weight_of_margin(generative, of, margin, owners) for of in (repeated, weighed))
    assert of_copies == of_weights
    assert weight_of_margin(generative, replace(weighed, weights=np.zeros(51)), margin, owners) == 1.0
    flat = generative._replace(words=np.ones((20, n)), totals=np.full(n, 20.0))
    assert weight_of_margin(flat, documents_of(rows), margin) == 1.0


@pytest.mark.parametrize("kind", ["em", "sdem"])
def test_labelled_documents_are_held_out_and_no_others(kind):
    learner = SdEM(NaiveBayes(X.shape[1], Classes(4)), 100.0, Merge() if kind == "sdem" else ClosedForm(), seed=3)
    lane = Lane(0, 0, 0, 0, N, N)
    documents = documents_of(X[:N], FEW.astype(np.int32), weights=np.ones(N))
    out = ~trained_part(3, 0, N, 0.5) & (FEW >= 0)
    assert 0 < out.sum() < (FEW >= 0).sum()
    held = replace(learner, held_out=0.5)
    np.testing.assert_array_equal(held.trained_on(held.prepare(documents), lane).weights, np.where(out, 0.0, 1.0))
    if kind == "sdem":  # a hidden class has no rivals: it asks for no step
        assert learner.map(learner.init(), learner.prepare(documents), lane).weight == (FEW >= 0).sum()


@pytest.mark.parametrize("loss", ["auto", "nll"])
def test_where_all_have_labels_nothing_changes(loss):
    plain, named = (sd.MultinomialNB(loss=loss, **more).fit(X[:N], PART[:N]) for more in ({}, {"unlabelled": -1}))
    np.testing.assert_array_equal(plain.state_.words, named.state_.words)


def test_where_they_mislead_they_hardly_count():
    # Most words tell of what nobody asks for; a few words of which each document has one tell the class.
    rng = np.random.default_rng(1)
    other, y = rng.integers(0, 2, N + TEST), rng.integers(0, 2, N + TEST)
    far, near = rng.dirichlet(np.full(100, 0.1), 2), np.eye(2) * 0.8 + 0.1
    words = [np.r_[rng.multinomial(60, far[o]), rng.multinomial(4, near[k])] for o, k in zip(other, y, strict=True)]
    rows, hidden = sp.csr_matrix(np.array(words)), np.where(np.arange(N) % 15 == 0, y[:N], -1)
    models = (sd.MultinomialNB(unlabelled=-1, unlabelled_weight=weight) for weight in (0.1, "auto", 0.0))
    forced, free, alone = (model.fit(rows[:N], hidden).score(rows[N:], y[N:]) for model in models)
    assert free > forced + 0.05 and free > alone - 0.02


def test_labelled_documents_alone_are_taken_where_they_are_better_beyond_doubt(monkeypatch):
    def of(losses, hits):
        return SimpleNamespace(log_loss=np.array(losses), accuracy=np.array(hits))

    helped = of([0.5, 0.6, 0.7], [0.8, 0.8, 0.8])
    assert is_better(helped, of([0.4, 0.5, 0.6], [0.8, 0.8, 0.8]))
    assert not is_better(helped, of([0.4, 0.5, 0.6], [0.8, 0.7, 0.8]))
    assert not is_better(helped, of([0.1, 0.7, 0.8], [0.9, 0.9, 0.9]))
    monkeypatch.setattr(holdout, "is_better", lambda helped, alone: True)
    hidden = np.where(np.arange(N) % 5 == 0, PART[:N], -1)
    free, alone = (sd.MultinomialNB(unlabelled=-1, unlabelled_weight=w).fit(X[:N], hidden) for w in ("auto", 0.0))
    assert free.best_entry_["unlabelled_weight"] == 0.0
    np.testing.assert_array_equal(free.state_.words, alone.state_.words)


@pytest.mark.parametrize("n", [N, 600])
def test_weight_0_is_a_corpus_of_the_labelled_documents(tmp_path, n):
    hidden = np.where(np.arange(n) % 3 == 0, PART[:n], -1)
    half = sd.write_corpus(tmp_path / "half.zarr", X[:n], hidden, unlabelled=-1, shuffle=False)
    known = sd.write_corpus(tmp_path / "known.zarr", X[:n][hidden >= 0], hidden[hidden >= 0], shuffle=False)
    ours = sd.MultinomialNB(unlabelled=-1, unlabelled_weight=0.0, evaluate_every=1)
    ours.fit(half, validation=(X[N:], PART[N:]))
    plain = sd.MultinomialNB(evaluate_every=1).fit(known, validation=(X[N:], PART[N:]))
    np.testing.assert_array_equal(ours.predict_proba(X[N:]), plain.predict_proba(X[N:]))
    a, b = (model.best_entry_["validation_accuracy"] for model in (ours, plain))
    assert a == b == plain.score(X[N:], PART[N:])


@pytest.mark.parametrize("weight", [0.0, 0.003])
def test_the_epoch_that_patience_keeps_has_the_weight(weight):
    few = sd.MultinomialNB(unlabelled=-1, unlabelled_weight=weight, patience=1, n_epochs=12)
    few.fit(X[:N], np.where(np.arange(N) % 5 == 0, PART[:N], -1), validation=(X[N:], PART[N:]))
    assert few.best_entry_["epoch"] < few.n_iter_ and few.best_entry_["unlabelled_weight"] == weight
    prefix = "held_out" if weight else "fold"
    assert {f"{prefix}_accuracy", f"{prefix}_log_loss"} <= set(few.best_entry_)


def test_few_labels_are_helped():
    hidden = np.full(N, -1)
    for k in range(4):
        hidden[np.flatnonzero(PART[:N] == k)[:4]] = k
    alone = sd.MultinomialNB().fit(X[:N][hidden >= 0], hidden[hidden >= 0])
    model = sd.MultinomialNB(unlabelled=-1).fit(X[:N], hidden)
    assert model.best_entry_["unlabelled_weight"] > 0
    assert model.score(X[N:], PART[N:]) > alone.score(X[N:], PART[N:]) + 0.03
    assert model.loss_ == "hinge" != alone.loss_
    zero = sd.MultinomialNB(loss="hinge", unlabelled=-1, unlabelled_weight=0.0).fit(X[:N], hidden)
    assert model.temperature_ == zero.temperature_  # that of folds of the labelled documents, with the same loss
    assert model.temperature_ != alone.temperature_


def test_labelled_documents_say_how_rare_a_word_is():
    rows = sp.csr_matrix(np.array([[1, 0, 1], [0, 1, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0]]))
    model = sd.MultinomialNB(unlabelled=-1, n_jobs=1).fit(rows, [0, 1, -1, -1, -1])
    assert model.weighting_.n_documents == 2 and model.document_frequency_.tolist() == [1, 1, 2]
    other = sd.MultinomialNB(unlabelled=-1, min_df=2, n_jobs=1).fit(rows, [0, 1, -1, -1, -1])
    assert other.document_frequency_.tolist() == [1, 0, 2]  # min_df counts all documents


def test_what_does_not_go_together_is_named():
    with pytest.raises(ValueError, match="steps='paper' supports neither unlabelled documents"):
        sd.MultinomialNB(unlabelled=-1, steps="paper").fit(X[:N], FEW)
    with pytest.raises(ValueError, match="set it to None"):
        sd.MultinomialNB(loss="nll", unlabelled=-1, class_weight="balanced").fit(X[:N], FEW)
    with pytest.raises(ValueError, match="partial_fit accepts unlabelled documents only with loss='nll'"):
        sd.MultinomialNB(unlabelled=-1).partial_fit(X[:N], FEW, classes=[0, 1, 2, 3])


def test_few_labels_choose_nothing_whether_or_not_they_are_calibrated():
    y = np.where(np.arange(N) < 24, PART[:N], -1)
    one, other = (sd.MultinomialNB(unlabelled=-1, calibrate=c).fit(X[:N], y) for c in (True, False))
    assert one.best_entry_["unlabelled_weight"] == other.best_entry_["unlabelled_weight"] > 0
    assert "held_out_accuracy" not in other.best_entry_ and other.temperature_ == 1.0
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
