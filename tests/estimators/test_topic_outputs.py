"""What supervised topic models predict beside classes and numbers: levels, counts, several labels; and a prior learned."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.metrics import accuracy_score, f1_score, log_loss, mean_poisson_deviance

import sdem_dist as sd
from sdem_dist.errors import ModelError, TrainingError
from sdem_dist.inputs.validation import as_documents
from sdem_dist.kernels.topic_steps import add_evidence
from sdem_dist.models.topic_heads import TopicParameters
from sdem_dist.models.topics import MirrorDescent, renewed

N, V, K = 1_200, 60, 4
RNG = np.random.default_rng(4)
TOPICS = RNG.dirichlet(np.full(V, 0.1), K)
THETA = RNG.dirichlet(np.full(K, 0.3), N)
X = sp.csr_matrix(np.array([RNG.multinomial(40, theta @ TOPICS) for theta in THETA]))
LEVELS = np.digitize(THETA @ [0.0, 2.0, 4.0, 1.0] + RNG.logistic(0.0, 0.2, N), [0.7, 1.4, 2.2])
COUNTS = RNG.poisson(np.exp(THETA @ [0.0, 1.0, 3.0, 2.0]))
SEVERAL = (RNG.random((N, 3)) < expit(8.0 * THETA[:, :3] - 2.0)).astype(int)
TRAIN, TEST = slice(0, 900), slice(900, N)
SMALL = {"n_components": 6, "n_epochs": 12, "batch_size": 20}


def test_levels_of_a_scale():
    model = sd.SupervisedLDAClassifier(ordered=True, **SMALL).fit(X[TRAIN], LEVELS[TRAIN])
    p = model.predict_proba(X[TEST])
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    score = model.learner_.head.gamma * model.transform(X[TEST]) @ model.coef_[0]
    at_most = expit(model.level_thresholds_ - score[:, None])
    np.testing.assert_allclose(p.cumsum(axis=1)[:, :-1], at_most, atol=1e-9)  # one score: proportional odds
    assert (np.diff(model.level_thresholds_) > 0).all()
    plain = sd.SupervisedLDAClassifier(**SMALL).fit(X[TRAIN], LEVELS[TRAIN])
    assert model.score(X[TEST], LEVELS[TEST]) > plain.score(X[TEST], LEVELS[TEST]) - 0.1
    assert model.evaluate(X[TEST], LEVELS[TEST])["ncll"] == pytest.approx(log_loss(LEVELS[TEST], p), rel=1e-6)
    even = np.bincount(LEVELS[TRAIN]) / len(LEVELS[TRAIN])
    assert log_loss(LEVELS[TEST], p) < 0.9 * log_loss(LEVELS[TEST], np.tile(even, (len(p), 1)))
    with pytest.raises(ValueError, match="order of the alphabet: 1, 10, 2"):
        sd.SupervisedLDAClassifier(ordered=True).fit(X[:6], ["1", "10", "2"] * 2)
    with pytest.warns(UserWarning, match="alphabet: 'high', 'low', 'medium'"):
        sd.SupervisedLDAClassifier(ordered=True, **SMALL).fit(X[:60], ["low", "medium", "high"] * 20)
    explained = model.explain(X[TEST][:5])
    assert all(abs(e.log_odds) < np.inf and e.words for e in explained)


def test_counts_of_each_document():
    model = sd.SupervisedLDARegressor(family="poisson", **SMALL).fit(X[TRAIN], COUNTS[TRAIN])
    found = model.predict(X[TEST])
    np.testing.assert_allclose(found, np.exp(model.transform(X[TEST]) @ model.coef_[0]))
    deviance = mean_poisson_deviance(COUNTS[TEST], found)
    assert model.evaluate(X[TEST], COUNTS[TEST])["poisson_deviance"] == pytest.approx(deviance)
    assert deviance < 0.5 * mean_poisson_deviance(COUNTS[TEST], np.full(len(found), COUNTS[TRAIN].mean()))
    for wrong, message in ((COUNTS - 5, "counts"), (np.zeros(N), "not positive")):
        with pytest.raises(ValueError, match=message):
            sd.SupervisedLDARegressor(family="poisson").fit(X, wrong)
    with pytest.raises(ModelError, match="nothing to show"):
        model.explain(X[:2])
    with pytest.raises(TrainingError, match="lower output_rate"):  # else every document is predicted 0
        sd.SupervisedLDARegressor(5, family="poisson", output_rate=30.0).fit(X, COUNTS)


def test_several_labels():
    held_out = (X[TEST], SEVERAL[TEST])
    model = sd.SupervisedLDAClassifier(**SMALL).fit(X[TRAIN], SEVERAL[TRAIN], validation=held_out)
    P, given, found = (
        f(X[TEST]) for f in (model.predict_proba, model.predict, lambda X: model.evaluate(X, SEVERAL[TEST]))
    )
    np.testing.assert_allclose(P, expit(model.transform(X[TEST]) @ model.coef_.T))  # labels apart
    assert found["accuracy"] == pytest.approx(accuracy_score(SEVERAL[TEST], given))
    assert found["micro_f1"] == pytest.approx(f1_score(SEVERAL[TEST], given, average="micro"))
    assert found["label_log_loss"] == pytest.approx(log_loss(SEVERAL[TEST].ravel(), P.ravel()))
    # Thresholds are found in the end: a history has no figure of others.
    last = {name: value for name, value in model.history_[-1].items() if name.startswith("validation_")}
    assert last == pytest.approx({name: found[name.removeprefix("validation_")] for name in last})
    assert {"validation_label_log_loss", "validation_precision_at_1"} <= set(last)
    shares = np.tile(SEVERAL[TRAIN].mean(axis=0), (len(P), 1))
    assert found["label_log_loss"] < 0.9 * log_loss(SEVERAL[TEST].ravel(), shares.ravel())
    (p,) = model.predict_proba(X[:1])
    assert model.labels_of(X[:1]) == [tuple(k for k in np.argsort(-p) if p[k] >= model.thresholds_[k])]
    assert str(model.report(X[TEST], SEVERAL[TEST])) and len(model.explain(X[:2])) == 2
    with pytest.raises(ValueError, match="neither levels"):
        sd.SupervisedLDAClassifier(ordered=True).fit(X, SEVERAL)
    with pytest.raises(ValueError, match="unlabelled"):
        sd.SupervisedLDAClassifier(unlabelled=-1).fit(X, SEVERAL)


def test_thresholds_of_several_labels_find_rare_ones():
    rare = (RNG.random((N, 3)) < expit(8.0 * THETA[:, :3] - 7.0)).astype(int)
    model = sd.SupervisedLDAClassifier(**SMALL).fit(X[TRAIN], rare[TRAIN])
    odds = model.transform(X[TRAIN]) @ model.coef_.T
    for label, (column, threshold) in enumerate(zip(odds.T, model.thresholds_, strict=True)):
        # No other threshold has a clearly larger F1, but for the documents that labels borrow from each other.
        ours = f1_score(rare[TRAIN, label], expit(column) >= threshold)
        assert ours > max(f1_score(rare[TRAIN, label], column >= at) for at in column[::20]) - 0.05
    given = model.predict(X[TEST])
    assert f1_score(rare[TEST], given, average="macro") > 0.05 + f1_score(
        rare[TEST], model.predict_proba(X[TEST]) >= 0.5, average="macro", zero_division=0
    )


def test_one_alpha_for_each_topic_is_one_for_all():
    even = sd.LatentDirichletAllocation(3, alpha=1.2, n_epochs=2).fit(X)
    each = sd.LatentDirichletAllocation(3, alpha=[1.2] * 3, n_epochs=2).fit(X)
    np.testing.assert_array_equal(even.components_, each.components_)
    np.testing.assert_array_equal(each.alpha_, [1.2] * 3)
    assert even.perplexity(X[:5]) == each.perplexity(X[:5])
    more = sd.LatentDirichletAllocation(3, alpha=np.array([50.0, 1.0, 1.0]), n_epochs=2).fit(X)
    assert more.transform(X).mean(axis=0).argmax() == 0
    with pytest.raises(ValueError, match="alpha has 2 numbers for 3 topics"):
        sd.LatentDirichletAllocation(3, alpha=[1.0, 2.0]).fit(X)
    with pytest.raises(ValueError, match="alpha must be"):
        sd.LatentDirichletAllocation(3, alpha=np.array(1.1)).fit(X)


def test_a_learned_alpha_is_that_of_the_documents():
    """Topics that documents often mix have more of the pseudo-counts, whose sum stays."""
    true = np.array([0.1, 0.2, 0.4, 1.6])
    theta = np.random.default_rng(0).dirichlet(true, 500)
    counts = np.array([RNG.multinomial(60, t @ TOPICS) for t in theta], float)
    alpha, how = np.full(K, 1.0 + true.mean()), MirrorDescent(n_layers=30)
    rows = np.ascontiguousarray(TOPICS.T)
    for _ in range(30):
        evidence = np.zeros(K + 1)
        found, _ = how.proportions(TopicParameters(rows, np.empty((0, K)), alpha), as_documents(sp.csr_matrix(counts)))
        for x, proportions in zip(counts, found, strict=True):
            add_evidence(1.0, alpha, x, proportions, rows @ proportions, rows, evidence)
        alpha = renewed(alpha, evidence, 1.0)
    assert (np.diff(alpha) > 0).all()
    assert (alpha - 1.0).sum() == pytest.approx(true.sum())
    np.testing.assert_array_less(np.abs(np.log((alpha - 1.0) / true)), np.log(2.0))


def test_an_estimator_learns_alpha_after_a_third_of_its_epochs():
    settings = {"n_components": K, "n_epochs": 9, "batch_size": 50}
    model = sd.LatentDirichletAllocation(alpha="learned", **settings).fit(X)
    given = sd.LatentDirichletAllocation(alpha=1.1, **settings).fit(X)
    assert len(set(model.alpha_)) == K and (given.alpha_ == 1.1).all()
    held_out = X[:60]
    assert model.score(held_out) > given.score(held_out)


def test_the_fixed_point_of_counted_topics_is_the_likeliest_prior():
    """Where each word belongs to one topic alone the expected counts are counts: of a Dirichlet-multinomial."""
    true, rows = np.array([0.5, 2.0, 1.0]), np.eye(3)
    rng = np.random.default_rng(1)
    tables = np.array([rng.multinomial(80, p) for p in rng.dirichlet(true, 3_000)], float)
    alpha = np.full(3, 1.0 + true.sum() / 3)
    for _ in range(200):
        evidence = np.zeros(4)
        for counts in tables[:600] if _ < 190 else tables:
            theta = np.maximum(counts / counts.sum(), 1e-12)
            add_evidence(1.0, alpha, counts, theta, theta, rows, evidence)
        alpha = renewed(alpha, evidence, 1.0)
    np.testing.assert_allclose(alpha - 1.0, true, rtol=0.06)
