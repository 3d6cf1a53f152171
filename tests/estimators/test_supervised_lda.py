"""LDA with and without outputs: classes, numbers, levels, counts, several labels; a prior learned."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from reference.random_documents import documents_of
from scipy.special import expit
from sklearn.decomposition import LatentDirichletAllocation as PeerLDA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, log_loss, mean_poisson_deviance
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import sdem_dist as sd
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.kernels.topic_steps import add_evidence
from sdem_dist.models.lda import log_probability
from sdem_dist.models.topics import MirrorDescent, TopicParameters, renewed
from sdem_dist.reports.top_words import word_weights

N, V, K = 900, 60, 4
RNG = np.random.default_rng(2)
TOPICS, THETA = RNG.dirichlet(np.full(V, 0.1), K), RNG.dirichlet(np.full(K, 0.3), N)
X = sp.csr_matrix(np.array([RNG.multinomial(RNG.integers(20, 60), theta @ TOPICS) for theta in THETA]))
Y = np.array(["a", "b", "c"])[(THETA @ np.eye(4)[:, :3] + [0.0, 0.0, 0.1]).argmax(axis=1)]
R = np.column_stack([THETA @ [1.0, 5.0, -3.0, 0.0] + 7, 100 * THETA[:, 0]])
TRAIN, TEST = slice(0, 700), slice(700, N)
SMALL = {"n_components": 6, "n_epochs": 6}
WORDS = [f"word{i}" for i in range(V)]


@pytest.mark.parametrize(("merge", "steps"), [("mean", "scaled"), ("sum", "scaled"), ("mean", "paper")])
def test_classes_are_learned(merge, steps):
    model = sd.SupervisedLDAClassifier(merge=merge, steps=steps, batch_size=20, **SMALL).fit(X[TRAIN], Y[TRAIN])
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
    model = sd.SupervisedLDARegressor(merge=merge, batch_size=20, **SMALL).fit(X[TRAIN], R[TRAIN])
    assert model.predict(X[TEST]).shape == (200, 2) and model.score(X[TEST], R[TEST]) > 0.8
    assert model.evaluate(X[TEST], R[TEST])["r2"] == pytest.approx(model.score(X[TEST], R[TEST]))
    assert model.evaluate(X[TEST], R[TEST])["mse"] == pytest.approx(((model.predict(X[TEST]) - R[TEST]) ** 2).mean())
    one = sd.SupervisedLDARegressor(merge=merge, batch_size=20, **SMALL).fit(X[TRAIN], R[TRAIN, 0])
    assert one.predict(X[TEST]).shape == (200,) and one.score(X[TEST], R[TEST, 0]) > 0.8
    for fitted, said, *given in (
        (one, "y has 2 targets", R), (model, "trained with 2", R[:, 0]), (one, "above zero", R[:, 0], np.zeros(N)),
    ):  # fmt: skip
        np.testing.assert_raises_regex(ValueError, said, fitted.score, X, *given)


def test_held_out_likelihood_ranks_the_true_number_of_topics_first(tmp_path, client):
    rng = np.random.default_rng(0)
    true, theta = rng.dirichlet(np.full(300, 0.1), 10), rng.dirichlet(np.full(10, 0.3), 800)
    counts = sp.csr_matrix(np.array([rng.multinomial(40, row @ true) for row in theta]))
    train, test = counts[:700], sd.write_corpus(tmp_path / "test", counts[700:])
    how = {"n_epochs": 20, "batch_size": 50, "evaluate_every": 20}
    few, many = (sd.LatentDirichletAllocation(n, **how).fit(train, validation=test) for n in (10, 60))
    of_few, of_many = few.evaluate(test), many.evaluate(test)
    assert of_few["word_nll"] < of_many["word_nll"] and of_few["plug_in_nll"] > of_many["plug_in_nll"]
    assert of_few["plug_in_nll"] < of_few["word_nll"] == pytest.approx(-few.score(counts[700:]))
    assert of_few["perplexity"] == pytest.approx(few.perplexity(test))
    assert few.history_[-1]["validation_word_nll"] == of_few["word_nll"]
    assert "word_nll" not in few.history_[-1] and few.evaluate(test, client=client) == of_few


@pytest.mark.parametrize(("family", "targets", "shift"), [("gaussian", R[:, 0], 4096.0), ("poisson", R[:, 1] + 1, 0.0)])
def test_units_of_targets_play_no_part(family, targets, shift):
    a, b = (sd.SupervisedLDARegressor(family=family, **SMALL).fit(X, y) for y in (targets, 1024.0 * targets - shift))
    np.testing.assert_allclose(b.predict(X), 1024.0 * a.predict(X) - shift, rtol=1e-6)


def test_topics_are_found_again():
    model = sd.LatentDirichletAllocation(n_components=K, n_epochs=25, batch_size=20).fit(X[TRAIN])
    peer = PeerLDA(K, max_iter=25, learning_method="online", random_state=0).fit(X[TRAIN])
    assert np.minimum(model.components_[:, None], TOPICS[None]).sum(axis=2).max(axis=0).min() > 0.8
    some = X[TEST][:40]
    ours, documents = model.score(some), MemoryCorpus(some, None, (), shuffle=False).read(0, 40)
    topics = (peer.components_ / peer.components_.sum(axis=1)[:, None]).T.copy()
    theirs = log_probability(topics, documents, model.alpha_ - 1.0).sum() / some.sum()
    assert ours > theirs * 1.02  # both are negative
    assert model.perplexity(some) == pytest.approx(np.exp(-ours))
    assert model.history_[-1]["plug_in_nll"] < model.history_[0]["plug_in_nll"]
    scores = model.score_samples(X[:9])
    np.testing.assert_array_equal(model.score_samples(X[:9][::-1])[::-1], scores)  # a document's alone decide


def test_a_word_without_training_documents_keeps_a_probability():
    wide = sp.csr_matrix(sp.hstack([X, np.zeros((N, 1), int)]))
    models = (sd.LatentDirichletAllocation(K, topic_word_prior=prior).fit(wide) for prior in (0.03, 0.0))
    assert [model.components_[:, -1].min() > 1e-6 for model in models] == [True, False]
    with pytest.warns(UserWarning, match="priors outweigh the data"):
        sd.LatentDirichletAllocation(K).fit(wide, sample_weight=np.full(N, 1e-3))


@pytest.mark.parametrize("alpha", [0.5, 0.1])
def test_smaller_alpha_gives_sparser_topics(alpha):
    settings = {**SMALL, "topic_rate": 0.3, "batch_size": 20}
    shares = (sd.LatentDirichletAllocation(alpha=a, **settings).fit(X).transform(X) for a in (alpha, 3.0))
    few, many = (np.sort(of, axis=1)[:, -2:].sum(axis=1).mean() for of in shares)
    assert few > many + 0.1


def test_logarithms_of_counts():
    inside = sd.SupervisedLDAClassifier(log_counts=True, **SMALL).fit(X, Y)
    outside = make_pipeline(FunctionTransformer(np.log1p), sd.SupervisedLDAClassifier(**SMALL)).fit(X.astype(float), Y)
    np.testing.assert_allclose(inside.predict_proba(X), outside.predict_proba(X.astype(float)), rtol=1e-3)


@pytest.mark.parametrize("merge", ["mean", "sum"])
@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_equal_weights_of_classes_change_nothing(merge, factor):
    """Nor those of documents: rates fall, and averages begin, by the share of the run's weight that is done."""
    settings = {**SMALL, "merge": merge, "batch_size": 20}
    plain = sd.SupervisedLDAClassifier(**settings).fit(X, Y).predict_proba(X)
    model = sd.SupervisedLDAClassifier(class_weight=dict.fromkeys("abc", factor), **settings).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X), plain, atol=0.03)  # averages may begin a batch apart
    weighted = sd.SupervisedLDAClassifier(**settings).fit(X, Y, sample_weight=np.full(N, factor))
    np.testing.assert_allclose(weighted.predict_proba(X), plain, atol=0.03)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.0, 1e12])
def test_a_constant_target_is_predicted(value):
    targets = np.column_stack([R[:, 0], np.full(N, value)])
    model = sd.SupervisedLDARegressor(**SMALL).fit(X, targets)
    np.testing.assert_allclose(model.predict(X)[:, 1], value, rtol=1e-9, atol=1e-9)
    alone = sd.SupervisedLDARegressor(**SMALL).fit(X, targets[:, 0]).history_[-1]["r2"]
    assert model.history_[-1]["r2"] == pytest.approx(alone / 2, abs=0.05)  # 0 of the constant, as scikit-learn has it


@pytest.mark.parametrize(("merge", "settings"), [("mean", {"gamma": 1e4}), ("sum", {"output_rate": 1e4})])
def test_targets_that_run_away_are_told(merge, settings):
    with pytest.raises(sd.TrainingError, match="reduce output_rate"):
        sd.SupervisedLDARegressor(merge=merge, batch_size=20, n_epochs=4, **settings).fit(X, R)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_targets_whose_squares_are_no_numbers():
    np.testing.assert_raises_regex(ValueError, "divide y", sd.SupervisedLDARegressor(**SMALL).fit, X, R * 1e200)


def test_a_strong_prior_makes_topics_even():
    """Not the contrary, which steps by the words alone would, with documents this short."""
    assert sd.SupervisedLDAClassifier(alpha=50.0, n_components=20, batch_size=20).fit(X, Y).transform(X).max() < 0.08


def test_topics_for_people():
    classes = sd.SupervisedLDAClassifier(**SMALL).fit(X, Y)
    several = sd.SupervisedLDARegressor(**SMALL).fit(X, R)
    single = sd.SupervisedLDARegressor(**SMALL).fit(X, R[:, 0])
    words = sd.LatentDirichletAllocation(**SMALL).fit(X)
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
            assert [*word_weights(model, 4)[topic.number]] == topic.distinctive and len(topic.distinctive) == 4
    assert {t.label for t in words.topics()} == {None}
    topic = single.topics()[2]
    assert topic.title == f"2 ({single.coef_[0, 2]:.3g})"
    named = sd.LatentDirichletAllocation(**SMALL).fit(pd.DataFrame(X.toarray(), columns=WORDS))
    assert set(named.topics(3)[0].words) <= set(WORDS)
    one, many_steps = (sd.LatentDirichletAllocation(n_components=1, batch_size=n).fit(X) for n in (None, 2))
    assert one.topics(3)[0].words and one.topics(3)[0].distinctive and (one.n_iter_, many_steps.n_iter_) == (20, 10)


def test_what_cannot_be_learned_from(tmp_path):
    plain = sd.write_corpus(tmp_path / "a.zarr", X)
    dense, kept = sd.write_corpus(tmp_path / "b.zarr", X.toarray(), dense=True), {"checkpoint": tmp_path / "kept"}
    classes, numbers, words = sd.SupervisedLDAClassifier(), sd.SupervisedLDARegressor(), sd.LatentDirichletAllocation()
    for error, fit, said in (
        (sd.CorpusError, lambda: numbers.fit(plain, **kept), "no targets, but SupervisedLDARegressor needs"),
        (ValueError, lambda: numbers.fit(X, R, validation=(X, R[:, 0]), **kept), "y has 1 target per document"),
        (sd.CorpusError, lambda: classes.fit(plain), "no labels"),
        (
            sd.CorpusError,
            lambda: words.fit(dense),
            "the documents are dense, but LatentDirichletAllocation needs sparse",
        ),
        (ValueError, lambda: words.fit(X, client="somewhere"), "write one with"),
        (ValueError, lambda: words.fit(str(tmp_path / "a.zarr")), "is a path"),
        (ValueError, lambda: numbers.fit(plain, R), "do not pass y or sample_weight"),
    ):
        np.testing.assert_raises_regex(error, said, fit)
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(("n_documents", "expected"), [(1_000, 0.05), (25_000, 0.05), (250_000, 0.005)])
def test_the_default_rate_of_topics_falls_with_many_documents(n_documents, expected):
    rows, targets = sp.csr_matrix(np.ones((n_documents, 2))), np.arange(n_documents) % 2.0
    quick = {"n_components": 2, "n_epochs": 1, "n_layers": 1, "evaluate_every": 0}
    assert sd.SupervisedLDARegressor(**quick).fit(rows, targets).learner_.rule.topic_rate == pytest.approx(expected)


def test_weights_of_classes_move_the_predictions():
    fitted = (sd.SupervisedLDAClassifier(class_weight=w, **SMALL).fit(X, Y) for w in (None, {"a": 5.0}))
    plain, heavy = (model.predict_proba(X)[:, 0].mean() for model in fitted)
    assert heavy > plain + 0.05


N_DOCS = 1_200
DRAW = np.random.default_rng(4)
OTHER_TOPICS, SHARES = DRAW.dirichlet(np.full(V, 0.1), K), DRAW.dirichlet(np.full(K, 0.3), N_DOCS)
DOCS = sp.csr_matrix(np.array([DRAW.multinomial(40, theta @ OTHER_TOPICS) for theta in SHARES]))
LEVELS = np.digitize(SHARES @ [0.0, 2.0, 4.0, 1.0] + DRAW.logistic(0.0, 0.2, N_DOCS), [0.7, 1.4, 2.2])
COUNTS = DRAW.poisson(np.exp(SHARES @ [0.0, 1.0, 3.0, 2.0]))
SEVERAL = (DRAW.random((N_DOCS, 3)) < expit(8.0 * SHARES[:, :3] - 2.0)).astype(int)
OLD, NEW = slice(0, 900), slice(900, N_DOCS)
LONGER = {"n_components": 6, "n_epochs": 12, "batch_size": 20}


def test_levels_of_a_scale():
    model = sd.SupervisedLDAClassifier(ordered=True, **LONGER).fit(DOCS[OLD], LEVELS[OLD])
    p = model.predict_proba(DOCS[NEW])
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    score = model.learner_.head.gamma * model.transform(DOCS[NEW]) @ model.coef_[0]
    at_most = expit(model.level_thresholds_ - score[:, None])
    np.testing.assert_allclose(p.cumsum(axis=1)[:, :-1], at_most, atol=1e-9)  # one score: proportional odds
    assert (np.diff(model.level_thresholds_) > 0).all()
    plain = sd.SupervisedLDAClassifier(**LONGER).fit(DOCS[OLD], LEVELS[OLD])
    assert model.score(DOCS[NEW], LEVELS[NEW]) > plain.score(DOCS[NEW], LEVELS[NEW]) - 0.1
    assert model.evaluate(DOCS[NEW], LEVELS[NEW])["ncll"] == pytest.approx(log_loss(LEVELS[NEW], p), rel=1e-6)
    even = np.bincount(LEVELS[OLD]) / len(LEVELS[OLD])
    assert log_loss(LEVELS[NEW], p) < 0.9 * log_loss(LEVELS[NEW], np.tile(even, (len(p), 1)))
    with pytest.raises(ValueError, match="sorted alphabetically: 1, 10, 2"):
        sd.SupervisedLDAClassifier(ordered=True).fit(DOCS[:6], ["1", "10", "2"] * 2)
    with pytest.warns(UserWarning, match="alphabetically: high, low, medium"):
        sd.SupervisedLDAClassifier(ordered=True, **LONGER).fit(DOCS[:60], ["low", "medium", "high"] * 20)
    assert all(abs(e.log_odds) < np.inf and e.words for e in model.explain(DOCS[NEW][:5]))


def test_counts_of_each_document():
    model = sd.SupervisedLDARegressor(family="poisson", **LONGER).fit(DOCS[OLD], COUNTS[OLD])
    found = model.predict(DOCS[NEW])
    np.testing.assert_allclose(found, np.exp(model.transform(DOCS[NEW]) @ model.coef_[0]))
    deviance = mean_poisson_deviance(COUNTS[NEW], found)
    assert model.evaluate(DOCS[NEW], COUNTS[NEW])["poisson_deviance"] == pytest.approx(deviance)
    assert deviance < 0.5 * mean_poisson_deviance(COUNTS[NEW], np.full(len(found), COUNTS[OLD].mean()))
    for wrong, said in ((COUNTS - 5, "nonnegative"), (np.zeros(N_DOCS), "positive mean")):
        np.testing.assert_raises_regex(ValueError, said, sd.SupervisedLDARegressor(family="poisson").fit, DOCS, wrong)
    np.testing.assert_raises_regex(sd.ModelError, "nothing to show", model.explain, DOCS[:2])
    with pytest.raises(sd.TrainingError, match="reduce output_rate"):  # else every document is predicted 0
        sd.SupervisedLDARegressor(5, family="poisson", output_rate=30.0).fit(DOCS, COUNTS)


def test_several_labels():
    model = sd.SupervisedLDAClassifier(**LONGER).fit(DOCS[OLD], SEVERAL[OLD], validation=(DOCS[NEW], SEVERAL[NEW]))
    P, given, found = model.predict_proba(DOCS[NEW]), model.predict(DOCS[NEW]), model.evaluate(DOCS[NEW], SEVERAL[NEW])
    np.testing.assert_allclose(P, expit(model.transform(DOCS[NEW]) @ model.coef_.T))  # labels apart
    assert found["accuracy"] == pytest.approx(accuracy_score(SEVERAL[NEW], given))
    assert found["micro_f1"] == pytest.approx(f1_score(SEVERAL[NEW], given, average="micro"))
    assert found["label_log_loss"] == pytest.approx(log_loss(SEVERAL[NEW].ravel(), P.ravel()))
    # Thresholds are found in the end: a history has no figure of others.
    last = {name: value for name, value in model.history_[-1].items() if name.startswith("validation_")}
    assert last == pytest.approx({name: found[name.removeprefix("validation_")] for name in last})
    assert {"validation_label_log_loss", "validation_precision_at_1"} <= set(last)
    shares = np.tile(SEVERAL[OLD].mean(axis=0), (len(P), 1))
    assert found["label_log_loss"] < 0.9 * log_loss(SEVERAL[NEW].ravel(), shares.ravel())
    (p,) = model.predict_proba(DOCS[:1])
    assert model.labels_of(DOCS[:1]) == [tuple(k for k in np.argsort(-p) if p[k] >= model.thresholds_[k])]
    assert str(model.report(DOCS[NEW], SEVERAL[NEW])) and len(model.explain(DOCS[:2])) == 2
    for wrong, said in (({"ordered": True}, "with several labels per document"), ({"unlabelled": -1}, "unlabelled")):
        np.testing.assert_raises_regex(ValueError, said, sd.SupervisedLDAClassifier(**wrong).fit, DOCS, SEVERAL)


def test_thresholds_of_several_labels_find_rare_ones():
    rare = (DRAW.random((N_DOCS, 3)) < expit(8.0 * SHARES[:, :3] - 7.0)).astype(int)
    model = sd.SupervisedLDAClassifier(**LONGER).fit(DOCS[OLD], rare[OLD])
    odds = model.transform(DOCS[OLD]) @ model.coef_.T
    for label, (column, threshold) in enumerate(zip(odds.T, model.thresholds_, strict=True)):
        # No other threshold has a clearly larger F1, but for the documents that labels borrow from each other.
        ours = f1_score(rare[OLD, label], expit(column) >= threshold)
        assert ours > max(f1_score(rare[OLD, label], column >= at) for at in column[::20]) - 0.05
    answers = (model.predict(DOCS[NEW]), model.predict_proba(DOCS[NEW]) >= 0.5)
    ours, halves = (f1_score(rare[NEW], given, average="macro", zero_division=0) for given in answers)
    assert ours > 0.05 + halves


def test_one_alpha_for_each_topic_is_one_for_all():
    even, each = (sd.LatentDirichletAllocation(3, alpha=a, n_epochs=2).fit(DOCS) for a in (1.2, [1.2] * 3))
    np.testing.assert_array_equal(even.components_, each.components_)
    np.testing.assert_array_equal(each.alpha_, [1.2] * 3)
    assert even.perplexity(DOCS[:5]) == each.perplexity(DOCS[:5])
    more = sd.LatentDirichletAllocation(3, alpha=np.array([50.0, 1.0, 1.0]), n_epochs=2).fit(DOCS)
    assert more.transform(DOCS).mean(axis=0).argmax() == 0
    for alpha, said in (([1.0, 2.0], "alpha has 2 values for 3 topics"), (np.array(1.1), "alpha must be")):
        np.testing.assert_raises_regex(ValueError, said, sd.LatentDirichletAllocation(3, alpha=alpha).fit, DOCS)


def test_a_learned_alpha_is_that_of_the_documents():
    """Topics that documents often mix have more of the pseudo-counts, whose sum stays."""
    true, rng, rows = np.array([0.1, 0.2, 0.4, 1.6]), np.random.default_rng(0), np.ascontiguousarray(OTHER_TOPICS.T)
    counts = np.array([rng.multinomial(60, theta @ OTHER_TOPICS) for theta in rng.dirichlet(true, 500)], np.float32)
    alpha, how, documents = np.full(4, 1.0 + true.mean()), MirrorDescent(n_layers=30), documents_of(counts)
    for _ in range(30):
        evidence = np.zeros(5)
        found, _ = how.proportions(TopicParameters(rows, np.empty((0, 4)), alpha), documents)
        for x, proportions in zip(counts, found, strict=True):
            add_evidence(1.0, alpha, x, proportions, rows @ proportions, rows, evidence)
        alpha = renewed(alpha, evidence, 1.0)
    assert (np.diff(alpha) > 0).all() and (alpha - 1.0).sum() == pytest.approx(true.sum())
    np.testing.assert_array_less(np.abs(np.log((alpha - 1.0) / true)), np.log(2.0))


def test_an_estimator_learns_alpha_after_a_third_of_its_epochs():
    settings = {"n_components": K, "n_epochs": 9, "batch_size": 50}
    model = sd.LatentDirichletAllocation(alpha="learned", **settings).fit(DOCS)
    given = sd.LatentDirichletAllocation(alpha=1.1, **settings).fit(DOCS)
    assert len(set(model.alpha_)) == K and (given.alpha_ == 1.1).all()
    assert model.score(DOCS[:60]) > given.score(DOCS[:60])


def test_the_fixed_point_of_counted_topics_is_the_likeliest_prior():
    """Where each word belongs to one topic alone the expected counts are counts: of a Dirichlet-multinomial."""
    true, rows, rng = np.array([0.5, 2.0, 1.0]), np.eye(3), np.random.default_rng(1)
    tables = np.array([rng.multinomial(80, p) for p in rng.dirichlet(true, 3_000)], float)
    alpha = np.full(3, 1.0 + true.sum() / 3)
    for iteration in range(80):
        evidence = np.zeros(4)
        for counts in tables[:600] if iteration < 74 else tables:
            theta = np.maximum(counts / counts.sum(), 1e-12)
            add_evidence(1.0, alpha, counts, theta, theta, rows, evidence)
        alpha = renewed(alpha, evidence, 1.0)
    np.testing.assert_allclose(alpha - 1.0, true, rtol=0.06)
