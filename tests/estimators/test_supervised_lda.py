"""Supervised and unsupervised LDA as estimators: what they learn, from memory and from disk, and what they keep."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.decomposition import LatentDirichletAllocation as PeerLDA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sdem_dist import (
    CorpusError,
    LatentDirichletAllocation,
    SupervisedLDAClassifier,
    SupervisedLDARegressor,
    TrainingError,
    write_corpus,
)
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.errors import OtherRunError
from sdem_dist.models.lda import log_probability

N, V, K = 900, 60, 4
RNG = np.random.default_rng(2)
TOPICS = RNG.dirichlet(np.full(V, 0.1), K)
THETA = RNG.dirichlet(np.full(K, 0.3), N)
X = sp.csr_matrix(np.array([RNG.multinomial(RNG.integers(20, 60), theta @ TOPICS) for theta in THETA]))
Y = np.array(["a", "b", "c"])[(THETA @ np.eye(4)[:, :3] + [0.0, 0.0, 0.1]).argmax(axis=1)]
R = np.column_stack([THETA @ [1.0, 5.0, -3.0, 0.0] + 7, 100 * THETA[:, 0]])
TRAIN, TEST = slice(0, 700), slice(700, N)
SMALL = {"n_components": 6, "n_epochs": 6}
WORDS = [f"word{i}" for i in range(V)]


@pytest.mark.parametrize("merge", ["mean", "sum"])
def test_classes_are_learned(merge):
    model = SupervisedLDAClassifier(merge=merge, batch_size=20, **SMALL).fit(X[TRAIN], Y[TRAIN])
    peer = LogisticRegression(max_iter=1000).fit(X[TRAIN], Y[TRAIN])
    assert model.score(X[TEST], Y[TEST]) > 0.8
    assert model.score(X[TEST], Y[TEST]) > peer.score(X[TEST], Y[TEST]) - 0.05
    assert model.history_[-1]["ncll"] < model.history_[0]["ncll"]
    theta = model.transform(X[TEST])
    np.testing.assert_allclose(theta.sum(axis=1), 1.0, atol=1e-9)
    scores = theta @ model.coef_.T
    np.testing.assert_allclose(model.predict_log_proba(X[TEST]), scores - np.log(np.exp(scores).sum(axis=1))[:, None])
    assert model.components_.shape == (6, V)
    np.testing.assert_allclose(model.components_.sum(axis=1), 1.0)
    assert not hasattr(model, "predict_joint_log_proba")
    assert next(iter(model.get_feature_names_out())) == "supervisedldaclassifier0"


@pytest.mark.parametrize("merge", ["mean", "sum"])
def test_several_targets_are_learned(merge):
    model = SupervisedLDARegressor(merge=merge, batch_size=20, **SMALL).fit(X[TRAIN], R[TRAIN])
    assert model.predict(X[TEST]).shape == (200, 2)
    assert model.score(X[TEST], R[TEST]) > 0.8
    assert model.evaluate(X[TEST], R[TEST])["r2"] == pytest.approx(model.score(X[TEST], R[TEST]))
    mse = ((model.predict(X[TEST]) - R[TEST]) ** 2).mean()
    assert model.evaluate(X[TEST], R[TEST])["mse"] == pytest.approx(mse)
    one = SupervisedLDARegressor(merge=merge, batch_size=20, **SMALL).fit(X[TRAIN], R[TRAIN, 0])
    assert one.predict(X[TEST]).shape == (200,)
    assert one.score(X[TEST], R[TEST, 0]) > 0.8


def test_held_out_likelihood_ranks_the_true_number_of_topics_first(tmp_path, client):
    rng = np.random.default_rng(0)
    true = rng.dirichlet(np.full(300, 0.1), 10)
    theta = rng.dirichlet(np.full(10, 0.3), 900)
    counts = sp.csr_matrix(np.array([rng.multinomial(40, row @ true) for row in theta]))
    train, test = counts[:700], write_corpus(tmp_path / "test", counts[700:])
    few, many = (
        LatentDirichletAllocation(n, n_epochs=20, batch_size=50, evaluate_every=20).fit(train, validation=test)
        for n in (10, 60)
    )
    of_few, of_many = few.evaluate(test), many.evaluate(test)
    assert of_few["word_nll"] < of_many["word_nll"]
    assert of_few["plug_in_nll"] > of_many["plug_in_nll"]
    assert of_few["plug_in_nll"] < of_few["word_nll"] == pytest.approx(-few.score(counts[700:]))
    assert of_few["perplexity"] == pytest.approx(few.perplexity(test))
    assert few.history_[-1]["validation_word_nll"] == of_few["word_nll"]
    assert "word_nll" not in few.history_[-1]
    assert few.evaluate(test, client=client) == of_few


@pytest.mark.parametrize(("family", "targets", "shift"), [("gaussian", R[:, 0], 4096.0), ("poisson", R[:, 1] + 1, 0.0)])
def test_units_of_targets_play_no_part(family, targets, shift):
    a, b = (SupervisedLDARegressor(family=family, **SMALL).fit(X, y) for y in (targets, 1024.0 * targets - shift))
    np.testing.assert_allclose(b.predict(X), 1024.0 * a.predict(X) - shift, rtol=1e-6)


def test_topics_are_found_again():
    model = LatentDirichletAllocation(n_components=K, n_epochs=40, batch_size=20).fit(X[TRAIN])
    peer = PeerLDA(K, max_iter=40, learning_method="online", random_state=0).fit(X[TRAIN])
    overlap = np.minimum(model.components_[:, None], TOPICS[None]).sum(axis=2).max(axis=0)
    assert overlap.min() > 0.8
    ours = model.score(X[TEST][:60])
    documents = MemoryCorpus(X[TEST][:60], None, (), shuffle=False).read(0, 60)
    topics = (peer.components_ / peer.components_.sum(axis=1)[:, None]).T
    theirs = log_probability(topics, documents, model.alpha).sum() / X[TEST][:60].sum()
    assert ours > theirs * 1.02  # both are negative
    assert model.perplexity(X[TEST][:60]) == pytest.approx(np.exp(-ours))
    assert model.history_[-1]["plug_in_nll"] < model.history_[0]["plug_in_nll"]
    scores = model.score_samples(X[:9])
    np.testing.assert_array_equal(model.score_samples(X[:9][::-1])[::-1], scores)  # a document's alone decide


@pytest.mark.parametrize("alpha", [0.5, 0.1])
def test_smaller_alpha_gives_sparser_topics(alpha):
    settings = {**SMALL, "topic_rate": 0.3, "batch_size": 20}
    few, many = (
        np.sort(LatentDirichletAllocation(alpha=a, **settings).fit(X).transform(X), axis=1)[:, -2:].sum(axis=1).mean()
        for a in (alpha, 3.0)
    )
    assert few > many + 0.1


def test_line_search_and_beta():
    model = SupervisedLDAClassifier(inference="line-search", n_layers=3, beta=1.01, batch_size=20, **SMALL)
    assert model.fit(X[TRAIN], Y[TRAIN]).score(X[TEST], Y[TEST]) > 0.75


def test_logarithms_of_counts():
    inside = SupervisedLDAClassifier(log_counts=True, **SMALL).fit(X, Y)
    outside = make_pipeline(FunctionTransformer(np.log1p), SupervisedLDAClassifier(**SMALL)).fit(X.astype(float), Y)
    np.testing.assert_allclose(inside.predict_proba(X), outside.predict_proba(X.astype(float)), rtol=1e-3)


@pytest.mark.parametrize("merge", ["mean", "sum"])
@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_equal_weights_of_classes_change_nothing(merge, factor):
    """Nor those of documents: rates fall, and averages begin, by the share of the run's weight that is done."""
    settings = {**SMALL, "merge": merge, "batch_size": 20}
    plain = SupervisedLDAClassifier(**settings).fit(X, Y).predict_proba(X)
    model = SupervisedLDAClassifier(class_weight=dict.fromkeys("abc", factor), **settings).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X), plain, atol=0.03)  # averages may begin a batch apart
    weighted = SupervisedLDAClassifier(**settings).fit(X, Y, sample_weight=np.full(N, factor))
    np.testing.assert_allclose(weighted.predict_proba(X), plain, atol=0.03)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.0, 1e12])
def test_a_constant_target_is_predicted(value):
    targets = np.column_stack([R[:, 0], np.full(N, value)])
    model = SupervisedLDARegressor(**SMALL).fit(X, targets)
    np.testing.assert_allclose(model.predict(X)[:, 1], value, rtol=1e-9, atol=1e-9)
    alone = SupervisedLDARegressor(**SMALL).fit(X, targets[:, 0]).history_[-1]["r2"]
    assert model.history_[-1]["r2"] == pytest.approx(alone / 2, abs=0.05)  # 0 of the constant, as scikit-learn has it


@pytest.mark.parametrize(("merge", "settings"), [("mean", {"gamma": 1e4}), ("sum", {"output_rate": 1e4})])
def test_targets_that_run_away_are_told(merge, settings):
    with pytest.raises(TrainingError, match="lower output_rate"):
        SupervisedLDARegressor(merge=merge, batch_size=20, n_epochs=4, **settings).fit(X, R)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_targets_whose_squares_are_no_numbers():
    with pytest.raises(ValueError, match="divide them"):
        SupervisedLDARegressor(**SMALL).fit(X, R * 1e200)


def test_a_strong_prior_makes_topics_even():
    """Not the contrary, which steps by the words alone would, with documents this short."""
    model = SupervisedLDAClassifier(alpha=50.0, n_components=20, batch_size=20).fit(X, Y)
    assert model.transform(X).max() < 0.08


def test_topics_for_people():
    classes = SupervisedLDAClassifier(**SMALL).fit(X, Y)
    several = SupervisedLDARegressor(**SMALL).fit(X, R)
    single = SupervisedLDARegressor(**SMALL).fit(X, R[:, 0])
    words = LatentDirichletAllocation(**SMALL).fit(X)
    assert [t.label for t in classes.topics()] == np.array(["a", "b", "c"])[classes.coef_.argmax(axis=0)].tolist()
    np.testing.assert_array_equal([t.label for t in several.topics()], several.coef_.T)
    np.testing.assert_array_equal([t.label for t in single.topics()], single.coef_[0])
    for model in (classes, several, single, words):
        topics = model.topics(4)
        assert [t.number for t in topics] == list(range(6))
        lengths = np.asarray(X.sum(axis=1)).ravel()
        np.testing.assert_allclose([t.share for t in topics], lengths @ model.transform(X) / lengths.sum(), rtol=1e-12)
        for topic, p in zip(topics, model.components_, strict=True):
            assert topic.words == [f"#{w}" for w in np.argsort(-p)[:4]]
            assert len(topic.distinctive) == 4
    assert {t.label for t in words.topics()} == {None}
    topic = single.topics()[2]
    assert topic.title == f"2 ({single.coef_[0, 2]:.3g})"
    named = LatentDirichletAllocation(**SMALL).fit(pd.DataFrame(X.toarray(), columns=WORDS))
    assert set(named.topics(3)[0].words) <= set(WORDS)
    one = LatentDirichletAllocation(n_components=1).fit(X).topics(3)
    assert one[0].words and one[0].distinctive


def test_stored_documents_bring_their_words(tmp_path):
    corpus = write_corpus(tmp_path / "c.zarr", X, Y, targets=R, vocabulary=WORDS, shard_documents=300)
    read = corpus.read(0, N)
    rows, labels = read.to_csr(), np.array(corpus.header.classes)[read.labels]
    for kind, y in (
        (SupervisedLDAClassifier, labels),
        (SupervisedLDARegressor, read.targets),
        (LatentDirichletAllocation, None),
    ):
        stored = kind(**SMALL).fit(corpus)
        assert stored.vocabulary_ == WORDS
        assert set(stored.topics(3)[0].words) <= set(WORDS)
        assert stored.score(corpus) == pytest.approx(stored.score(rows) if y is None else stored.score(rows, y))


def test_a_longer_run_is_no_continuation(tmp_path):
    SupervisedLDARegressor(**SMALL).fit(X, R, checkpoint=tmp_path / "run")
    longer = SupervisedLDARegressor(**{**SMALL, "n_epochs": 9})
    with pytest.raises(OtherRunError, match=r"other settings.*learner.rule.n_epochs: 9"):
        longer.fit(X, R, checkpoint=tmp_path / "run", resume=True)


def test_stopping_on_validation_keeps_the_best():
    model = SupervisedLDAClassifier(n_components=6, n_epochs=60, topic_rate=0.5, batch_size=5, patience=2)
    model.fit(X[:80], Y[:80], validation=(X[TEST], Y[TEST]))
    losses = [h["validation_ncll"] for h in model.history_]
    assert model.n_iter_ < 60
    assert model.evaluate(X[TEST], Y[TEST])["ncll"] == pytest.approx(min(losses))
    model = SupervisedLDARegressor(patience=3, **SMALL).fit(X[TRAIN], R[TRAIN], validation=(X[TEST], R[TEST]))
    assert min(h["validation_mse"] for h in model.history_) == pytest.approx(model.evaluate(X[TEST], R[TEST])["mse"])


def test_what_cannot_be_learned_from(tmp_path):
    plain = write_corpus(tmp_path / "a.zarr", X)
    dense = write_corpus(tmp_path / "b.zarr", X.toarray(), dense=True)
    with pytest.raises(CorpusError, match="has no targets, which SupervisedLDARegressor needs"):
        SupervisedLDARegressor().fit(plain)
    with pytest.raises(CorpusError, match="has no labels"):
        SupervisedLDAClassifier().fit(plain)
    with pytest.raises(CorpusError, match="holds dense documents, and LatentDirichletAllocation takes sparse"):
        LatentDirichletAllocation().fit(dense)
    with pytest.raises(ValueError, match="write one with"):
        LatentDirichletAllocation().fit(X, client="somewhere")
    with pytest.raises(ValueError, match="is a path"):
        LatentDirichletAllocation().fit(str(tmp_path / "a.zarr"))
    with pytest.raises(ValueError, match="leave y and sample_weight"):
        SupervisedLDARegressor().fit(plain, R)


@pytest.mark.parametrize(("n_documents", "expected"), [(1_000, 0.05), (25_000, 0.05), (250_000, 0.005)])
def test_the_default_rate_of_topics_falls_with_many_documents(n_documents, expected):
    rows, targets = sp.csr_matrix(np.ones((n_documents, 2))), np.arange(n_documents) % 2.0
    quick = {"n_components": 2, "n_epochs": 1, "n_layers": 1, "evaluate_every": 0}
    model = SupervisedLDARegressor(**quick).fit(rows, targets)
    assert model.learner_.rule.topic_rate == pytest.approx(expected)


def test_weights_of_classes_move_the_predictions():
    plain, heavy = (
        SupervisedLDAClassifier(class_weight=w, **SMALL).fit(X, Y).predict_proba(X)[:, 0].mean()
        for w in (None, {"a": 5.0})
    )
    assert heavy > plain + 0.05
