"""LDAClassifier: naive Bayes with one topic, topics that part; nll and perplexity against sums over all topics."""

import numpy as np
import pytest
from reference.random_documents import documents_of, exact_topics, one_round, random_counts, topic_counts
from scipy.special import digamma, gammaln, logsumexp

from sdem_dist import LDAClassifier, MultinomialNB, write_corpus
from sdem_dist.kernels import lda as variational
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import Merge, margin_steps
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.heads import Classes, Unit
from sdem_dist.models.lda import Inference, LdaClasses, log_probability
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.reports.top_words import coherence

TOPICS = np.array([[0.7, 0.1, 0.2], [0.2, 0.1, 0.5], [0.1, 0.8, 0.3]])


@pytest.mark.parametrize("inference", ["map", "gibbs"])
def test_nll_finds_the_topics(inference):
    X, y, topic = topic_counts()
    model = LDAClassifier(loss="nll", inference=inference, n_epochs=30, topic_word_prior=0.1, init_noise=0.5).fit(X, y)
    shares = model.transform(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    found = shares.argmax(axis=1)
    for k in range(2):
        table = np.array([[np.sum((found == 2 * k + z) & (topic == t)) for t in (2 * k, 2 * k + 1)] for z in range(2)])
        assert max(np.trace(table), np.trace(table[::-1])) > 0.9 * (y == k).sum()
    for t in model.topics(5):
        assert t.label in (0, 1) and 0.0 < t.share < 1.0
        blocks, own = {int(w[1:]) // 10 for w in t.words}, {2 * t.label, 2 * t.label + 1}
        assert len(blocks) == 1 and blocks < own, "its words are those of one topic of the class"
        assert set(t.distinctive) <= {f"#{w}" for b in own for w in range(10 * b, 10 * b + 10)}
    together = coherence(model.components_, X, 5)
    mixed = coherence(model.components_[:, np.random.default_rng(1).permutation(40)], X, 5)
    assert together.min() > 0.1 > mixed.max()


def test_topics_of_a_class_that_has_lost_all_its_counts():
    X, y = random_counts(n_documents=400, seed=3)
    model = LDAClassifier(n_epochs=30, n_lanes=1, rounds_per_epoch=1, steps="paper")
    model.fit(X, y, sample_weight=(y != 1).astype(float))
    assert not model.state_.totals.reshape(2, 3)[:, 1].any()
    topics = model.topics(3)
    np.testing.assert_allclose([sum(t.share for t in topics if t.label == k) for k in range(3)], 1.0)
    p = np.einsum("kz,kzw->kw", np.array([t.share for t in topics]).reshape(3, 2), model.components_.reshape(3, 2, -1))
    first = model.components_[0] * np.log(model.components_[0] / p[1:].mean(axis=0))
    assert topics[0].distinctive == [f"#{w}" for w in np.argsort(-first, kind="stable")[:3]]


def test_burn_in_is_of_sampling():
    X, y = random_counts()
    assert LDAClassifier(n_sweeps=2, n_epochs=1).fit(X, y).n_sweeps == 2  # fewer than the default burn_in
    assert LDAClassifier(inference="gibbs", n_sweeps=2, n_epochs=1).fit(X, y).learner_.model.inference.burn_in == 1


def test_coherence_of_words_that_always_never_or_by_chance_meet():
    X = np.zeros((64, 6))
    X[:32, :3] = X[32:, 3] = X[::2, 4] = 1
    rows = np.eye(6)
    found = coherence(rows[[0, 2, 0, 0]] + rows[[1, 3, 4, 5]], X, 2)
    np.testing.assert_allclose(found, [1.0, -1.0, 0.0, np.nan], rtol=1e-7, atol=1e-12)
    np.testing.assert_raises_regex(ValueError, "7 features, but the topics have 6", coherence, rows, np.ones((3, 7)), 2)


@pytest.mark.parametrize("settings", [{}, {"inference": "gibbs"}, {"inference": "gibbs", "n_particles": 2}])
def test_a_document_scores_the_same_wherever_it_stands(settings):
    X, y = random_counts(seed=1)
    model = LDAClassifier(n_epochs=2, **settings).fit(X, y)
    scores = model.predict_joint_log_proba(X)
    order = np.random.default_rng(0).permutation(X.shape[0])
    np.testing.assert_array_equal(model.predict_joint_log_proba(X[order]), scores[order])


def test_topics_are_named(tmp_path):
    X, y = random_counts()
    corpus = write_corpus(tmp_path / "c.zarr", X, np.array([*"abc"])[y], vocabulary=[f"word{i}" for i in range(30)])
    model = LDAClassifier(n_components=3, n_epochs=2).fit(corpus)
    topics = model.topics(4)
    assert [(t.label, t.number) for t in topics] == [(c, z) for c in "abc" for z in range(3)]
    assert all(w.startswith("word") for t in topics for w in (*t.words, *t.distinctive))
    np.testing.assert_allclose(sum(t.share for t in topics), 3.0)
    assert list(model.get_feature_names_out())[:2] == ["ldaclassifier0", "ldaclassifier1"]
    assert coherence(model.components_, corpus, 4).shape == (9,)


def test_weights_are_no_whole_occurrences(tmp_path):
    X, y = random_counts()
    model = LDAClassifier(inference="gibbs", occurrences="each", n_epochs=1, n_lanes=4, rounds_per_epoch=1)
    corpus = write_corpus(tmp_path / "c.zarr", X * 0.5, y)
    LDAClassifier(n_epochs=1, n_lanes=4, rounds_per_epoch=1).fit(corpus)  # has prepared the documents
    for documents in ((X * 0.5, y), (corpus,)):
        np.testing.assert_raises_regex(ValueError, "needs integer counts", model.fit, *documents)
    model.fit(X, y)
    for method in (model.predict, model.transform):
        np.testing.assert_raises_regex(ValueError, "needs integer counts", method, X * 0.5)


@pytest.mark.parametrize("settings", [{}, {"inference": "gibbs"}, {"inference": "gibbs", "occurrences": "each"}])
def test_a_stored_zero_is_nothing(settings):
    X, y = random_counts()
    stored = X.copy()
    stored.data[::5] = 0
    bare = stored.copy()
    bare.eliminate_zeros()
    one, other = (LDAClassifier(n_epochs=2, **settings).fit(rows, y) for rows in (stored, bare))
    assert stored.nnz == X.nnz  # what was passed stays as it was
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_array_equal(one.predict_joint_log_proba(stored), one.predict_joint_log_proba(bare))


@pytest.mark.parametrize(("batch_size", "as_rounds"), [(None, 1), (40, 3)])
def test_nll_takes_a_step_for_every_batch(batch_size, as_rounds):
    X, y = random_counts()  # 120 documents
    settings = {"loss": "nll", "n_epochs": 2, "evaluate_every": 0}
    model = LDAClassifier(batch_size=batch_size, merge="sum", **settings).fit(X, y)
    same = LDAClassifier(rounds_per_epoch=as_rounds, n_lanes=1, **settings).fit(X, y)
    np.testing.assert_allclose(model.components_, same.components_, rtol=1e-10)


@pytest.mark.parametrize("loss", ["ncll", "hinge"])
@pytest.mark.parametrize("merge", ["mean", "sum"])
@pytest.mark.parametrize("inference", ["map", "gibbs"])
def test_one_topic_a_class_is_naive_bayes(loss, merge, inference):
    X, y = random_counts(seed=2)
    rule = Merge(margin_steps(0.3, Unit(20.0, 25.0), 0.5, 1.0), merge == "mean")
    topics = LdaClasses(X.shape[1], Classes(3), alpha=0.5, n_topics=1, inference=Inference(method=inference))
    found = []
    for model in (topics, NaiveBayes(X.shape[1], Classes(3), 0.5)):
        made = SdEM(model, float(len(y)), rule, loss)
        state = made.init()
        for epoch in range(3):
            state = one_round(made, state, documents_of(X, y), epoch)
        found.append(state)
    # The fast kernel of naive Bayes counts in single precision and leaves negligible classes alone.
    np.testing.assert_allclose(found[0].words, found[1].words, atol=0.01 if merge == "mean" else 1e-9)
    np.testing.assert_allclose(found[0].class_counts, found[1].class_counts, atol=0.01 if merge == "mean" else 1e-9)
    assert not np.allclose(found[0].words, 0.5, atol=0.05)


@pytest.mark.parametrize("loss", ["ncll", "hinge"])
def test_one_topic_and_the_papers_steps_are_naive_bayes_to_the_letter(loss):
    """Gamma rises with every document (Algorithm 5), as in Algorithm 2."""
    X, y = random_counts(seed=2)
    shared = {"loss": loss, "steps": "paper", "step_decay": 0.01, "n_epochs": 2, "n_lanes": 1, "random_state": 3}
    ours = LDAClassifier(n_components=1, topic_word_prior=1.0, doc_topic_prior=5.0, **shared).fit(X, y)
    theirs = MultinomialNB(alpha=1.0, weighting="counts", validation_fraction=0.0, **shared).fit(X, y)
    np.testing.assert_allclose(ours.state_.words, theirs.state_.words, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(ours.state_.gamma, theirs.state_.gamma, rtol=1e-12)
    np.testing.assert_allclose(ours.state_.class_counts, theirs.state_.class_counts, rtol=1e-9)
    for name in ("nll", "perplexity"):  # exact with one topic
        assert ours.evaluate(X, y)[name] == pytest.approx(theirs.evaluate(X, y)[name], rel=1e-8)


@pytest.mark.parametrize("settings", [
    {"n_epochs": 1, "n_lanes": 1, "rounds_per_epoch": 1},
    {"n_epochs": 3},
    {"n_epochs": 2, "class_weight": {0: 3.0, 1: 0.5}},
    {"n_epochs": 2, "fit_prior": False},
])  # fmt: skip
def test_one_topic_and_nll_is_naive_bayes_by_counting(settings):
    """However many passes count the documents: each adds the prior once."""
    X, y = random_counts(seed=3)
    ours = LDAClassifier(loss="nll", n_components=1, topic_word_prior=0.7, **settings).fit(X, y)
    shared = {name: settings[name] for name in ("class_weight", "fit_prior") if name in settings}
    theirs = MultinomialNB(loss="nll", alpha=0.7, **shared).fit(X, y)
    np.testing.assert_allclose(ours.components_, np.exp(theirs.feature_log_prob_), rtol=1e-12)
    np.testing.assert_allclose(ours.class_log_prior_, theirs.class_log_prior_, rtol=1e-12)
    np.testing.assert_allclose(ours.predict_joint_log_proba(X), theirs.predict_joint_log_proba(X), rtol=1e-6)


def learner(loss="ncll", merge="mean", n_documents=120.0, seed=0, **model):
    classes = LdaClasses(**{"n_features": 30, "head": Classes(3), "alpha": 0.5, **model})
    return SdEM(classes, n_documents, Merge(local=merge == "mean"), loss, seed=seed)


def distance(state, n_classes=2):
    """Return the total variation between the two topics of each class, times two."""
    p = (state.words + state.gamma) / (state.totals + state.gamma * len(state.words))
    return np.abs(p[:, :n_classes] - p[:, n_classes:]).sum(axis=0)


@pytest.mark.parametrize("method", ["map", "gibbs"])
@pytest.mark.parametrize("loss", ["nll", "ncll"])
def test_topics_part_in_16_lanes_and_averaging_keeps_them_apart(method, loss):
    X, y, _ = topic_counts(1_600)
    settings = {"n_features": 40, "head": Classes(2), "n_documents": 1_600.0, "loss": loss, "alpha": 0.05}
    made = learner(**settings, inference=Inference(method=method))
    lanes = [Lane(0, 0, i, 100 * i, 100 * i + 100, 1_600) for i in range(16)]
    documents = [made.prepare(documents_of(X, y)[lane.start : lane.stop]) for lane in lanes]
    state = made.init()
    for round_ in range(4):
        parts = [made.map(state, d, lane) for d, lane in zip(documents, lanes, strict=True)]
        apart = np.mean([distance(made.update(state, part)) for part in parts], axis=0)
        state = made.update(state, made.combine(parts))
        if round_ == 0:
            assert (distance(state) > 0.1).all()
    assert (distance(state) > 0.5 * apart).all(), "lanes number their topics alike, or averaging would mix them"
    if method == "map":
        blind = learner(**settings, noise=0.0, inference=Inference(method="map"))
        after = blind.update(blind.init(), blind.map(blind.init(), documents[0], lanes[0]))
        np.testing.assert_allclose(distance(after), 0)


def test_hinge_changes_two_classes_and_a_sure_document_none():
    X, y = random_counts(n_documents=40, n_classes=3)
    document = documents_of(X, y)[1:2]
    for merge in ("mean", "sum"):
        made = learner(loss="hinge", merge=merge)
        start = made.init()
        one = made.map(start, made.prepare(document), Lane(0, 0, 0, 0, 1, 1))
        changed = np.abs(one.rows).max(axis=0).reshape(2, 3).max(axis=0) > 1e-12
        assert changed.sum() == 2 and changed[y[1]]
    sure = start._replace(words=start.words.copy())
    sure.words[document.indices, y[1]] += 1e6
    sure.words[document.indices, 3 + y[1]] += 1e6
    sure = sure._replace(totals=sure.words.sum(axis=0))
    assert not learner(loss="hinge", merge="sum").map(sure, made.prepare(document), Lane(0, 0, 0, 0, 1, 1)).rows.any()


def test_the_sum_of_expected_statistics_is_that_of_the_words():
    X, y = random_counts(seed=5)
    for method in ("map", "gibbs"):
        for occurrences in ("shared", "paper", "each"):
            made = learner(loss="nll", merge="sum", inference=Inference(method=method, occurrences=occurrences))
            part = made.map(made.init(), made.prepare(documents_of(X, y)), Lane(0, 0, 0, 0, 120, 120))
            by_class = part.rows.reshape(len(part.words), 2, 3).sum(axis=1)
            expected = np.stack([X[y == k].sum(axis=0).A1 for k in range(3)], axis=1)[part.words]
            np.testing.assert_allclose(by_class, expected, rtol=1e-9)
            np.testing.assert_allclose(part.class_counts, np.bincount(y))


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_the_topics_of_a_class_start_apart_and_favour_no_class(noise):
    state = learner(n_topics=3, noise=noise).init()
    words = state.words.reshape(30, 3, 3)
    np.testing.assert_allclose(words.sum(axis=1), 3 * 0.5)
    assert words.std(axis=1).min() > 0.01 * noise
    np.testing.assert_allclose(state.totals, state.words.sum(axis=0))


def exact(counts, beta, alpha):
    """Return ln of the sum over z of p(words, z); beta is p(word | topic) of shape (n_words, n_topics)."""
    words = np.repeat(np.arange(len(counts)), counts)
    return exact_topics(beta[words], np.ones(len(words)), alpha)[0]


def fitted(alpha, **settings):
    """Return a fitted classifier, documents of ten words, their labels, and the exact ln p(y, d)."""
    X, y, _ = topic_counts(200)
    how = {"loss": "nll", "n_epochs": 3, "evaluate_every": 0, "random_state": 0, **settings}
    model = LDAClassifier(doc_topic_prior=alpha, **how).fit(X, y)
    rows = np.array([np.bincount(np.repeat(np.arange(40), row)[:10], minlength=40) for row in X.toarray()[:12]])
    beta = model.components_.reshape(2, model.n_components, -1)
    joint = [[exact(row, beta[k].T, alpha) + model.class_log_prior_[k] for k in range(2)] for row in rows]
    return model, rows, y[:12], np.array(joint)


@pytest.mark.parametrize("inference", ["map", "gibbs"])
@pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0])
def test_nll_and_perplexity_are_bounds_and_close(inference, alpha):
    model, rows, y, joint = fitted(alpha, inference=inference)
    bound = model.predict_joint_log_proba(rows)
    assert (bound <= joint + 1e-9).all()
    each = np.arange(12)
    np.testing.assert_allclose(bound[each, y], joint[each, y], atol=1.0)
    found, nll = model.evaluate(rows, y), -joint[each, y].mean()
    perplexity = np.exp(-logsumexp(joint, axis=1).sum() / rows.sum())
    assert nll <= found["nll"] <= nll + 0.3 and perplexity <= found["perplexity"] <= 1.05 * perplexity


def test_particles_estimate_it():
    model, rows, y, joint = fitted(1.0, inference="gibbs", occurrences="each", n_particles=2_000)
    np.testing.assert_allclose(model.predict_joint_log_proba(rows[:4]), joint[:4], atol=0.1)
    assert model.evaluate(rows[:4], y[:4])["nll"] == pytest.approx(-joint[np.arange(4), y[:4]].mean(), abs=0.05)


def test_sweeps_raise_the_bound():
    rng = np.random.default_rng(0)
    beta, counts = rng.dirichlet(np.full(30, 0.3), 4).T.copy(), rng.integers(1, 5, 30).astype(float)
    gammas = [rng.uniform(0.5, 20.0, 4)] * 6
    bounds = [variational.bound_document(beta, counts, 0.5, n, gamma.copy()) for n, gamma in enumerate(gammas)]
    assert (np.diff(bounds) > 0).all()


def test_digamma():
    x = np.concatenate([np.logspace(-6, 6, 200), [1.4616321449683623]])
    np.testing.assert_allclose([variational.digamma(v) for v in x], digamma(x), rtol=1e-12, atol=3e-14)


@pytest.mark.parametrize("alpha", [0.1, 1.0, 5.0, np.array([0.2, 3.0, 1.0])])
def test_it_is_the_sum_over_topics(alpha):
    tables = [[3, 1, 2], [0, 5, 1], [1, 0, 0], [0, 0, 0]]
    documents = documents_of(np.float32(tables))
    found = np.mean([log_probability(TOPICS, documents, alpha, 5_000, seed) for seed in range(5)], axis=0)
    np.testing.assert_allclose(found, [exact(t, TOPICS, alpha) for t in tables], atol=0.03)


def test_the_seed_alone_decides():
    a, b, c = (log_probability(TOPICS, documents_of(np.float32([[4, 4, 4]])), 0.5, 3, seed) for seed in (0, 0, 1))
    assert a == b != c


def test_a_fraction_of_a_word_counts_as_an_occurrence_of_that_weight():
    found = [log_probability(TOPICS, documents_of(np.float32([[1.0, n, 0.0]])), 1.0, 5_000)[0] for n in (1.0, 1.5, 2.0)]
    assert found[0] > found[1] > found[2]


@pytest.mark.parametrize("n", [20, 150])
def test_long_documents_have_the_exact_sum_in_the_mean(n):
    beta, alpha = np.random.default_rng(n).dirichlet(np.ones(300), 2).T[:n].copy(), 0.5
    ways = np.zeros(1)  # ln of the sum over all assignments with so many words of the first topic
    for first, second in np.log(beta):
        ways = np.logaddexp(np.append(ways + second, -np.inf), np.append(-np.inf, ways + first))
    of_first = np.arange(n + 1)
    prior = gammaln(of_first + alpha) + gammaln(n - of_first + alpha) - 2 * gammaln(alpha) - gammaln(n + 2 * alpha)
    expected = logsumexp(ways + prior + gammaln(2 * alpha))
    each = [log_probability(beta, documents_of(np.ones((1, n), np.float32)), alpha, 20, seed)[0] for seed in range(300)]
    np.testing.assert_allclose(logsumexp(each) - np.log(len(each)), expected, atol=0.03)
    assert np.std(each) < 0.5
