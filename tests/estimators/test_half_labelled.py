"""Documents whose class is hidden: who takes them, what an iteration makes of them, who is helped, and by what weight."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.trained_bits import bits
from scipy.special import softmax
from sklearn.datasets import load_iris

import sdem_dist as sd
from sdem_dist import MultinomialNB, SupervisedLDAClassifier, SupervisedLDARegressor
from sdem_dist.errors import CorpusError, OtherRunError

RNG = np.random.default_rng(0)
N, TEST = 1200, 400
TOPICS = RNG.dirichlet(np.full(200, 0.2), 4)
PART = RNG.integers(0, 4, N + TEST)
CLASSES = PART // 2
X = sp.csr_matrix(np.array([RNG.multinomial(25, 0.4 * TOPICS[k] + 0.6 / 200) for k in PART]))
Y, ROWS, NEW = CLASSES[:N], X[:N], (X[N:], CLASSES[N:])
HIDDEN = np.where(np.arange(N) % 50 == 0, Y, -1)
KNOWN = HIDDEN >= 0
CENTRES = np.array([[0.0, 0.0], [4.0, 4.0], [0.0, 4.0], [4.0, 0.0]])
TABLE = CENTRES[PART] + RNG.normal(size=(N + TEST, 2))
SMALL = {"n_components": 4, "n_epochs": 8, "evaluate_every": 0}
MIXTURE = {"n_components": 2, "components": "multinomial"}
HELPED = {
    "EM": (MultinomialNB, {"loss": "nll", "n_epochs": 20}),
    "EM of mixtures": (sd.EMMixtureClassifier, MIXTURE),
    "sdEM of mixtures": (sd.SdemMixtureClassifier, MIXTURE),
    "topics that explain words": (SupervisedLDAClassifier, {**SMALL, "words_weight": 0.1}),
}


@pytest.mark.parametrize("name", HELPED)
def test_they_help_where_few_have_labels(name):
    kind, settings = HELPED[name]
    alone = kind(**settings).fit(ROWS[KNOWN], HIDDEN[KNOWN])
    helped = kind(**settings, unlabelled=-1).fit(ROWS, HIDDEN)
    assert helped.classes_.tolist() == [0, 1]
    assert helped.score(*NEW) > alone.score(*NEW) + 0.04


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
    model = MultinomialNB(loss="nll", unlabelled=-1, unlabelled_weight=0.5, n_epochs=4).fit(ROWS, HIDDEN)
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
    first, second = (
        sd.EMMixtureClassifier(**MIXTURE, unlabelled=-1, unlabelled_weight=0.5, n_epochs=n).fit(ROWS, HIDDEN)
        for n in (1, 2)
    )
    scores = ROWS @ first.theta_.T + first.log_weights_.max(axis=0)
    mine = np.array([0, 0, 1, 1]) == HIDDEN[:, None]
    shares = softmax(np.where(mine | ~KNOWN[:, None], scores, -np.inf), axis=1) * np.where(KNOWN, 1.0, 0.5)[:, None]
    expected = ROWS.T @ shares + 1.0
    np.testing.assert_allclose(np.exp(second.theta_).T, expected / expected.sum(axis=0), rtol=1e-8)


@pytest.mark.parametrize("kind", [sd.EMMixtureClassifier, sd.SdemMixtureClassifier])
def test_weight_0_is_as_if_they_were_not_there_but_for_the_prior(kind):
    # Of a table: the class of a row with weight 0 moves nothing, whatever the row is.
    far = np.concatenate([TABLE[:N], TABLE[:N][~KNOWN][::-1]])
    hidden = np.concatenate([HIDDEN, HIDDEN[~KNOWN]])
    without, full = (
        kind(2, unlabelled=-1, unlabelled_weight=weight, random_state=1).fit(far, hidden) for weight in (0.0, 1.0)
    )
    assert not np.array_equal(without.theta_, full.theta_)
    np.testing.assert_allclose(np.exp(without.class_log_prior_).sum(), 1.0)
    assert without.score(TABLE[N:], CLASSES[N:]) > 0.8


def test_minus_one_is_a_class_unless_said_otherwise(tmp_path):
    assert MultinomialNB(n_epochs=1).fit(ROWS, HIDDEN).classes_.tolist() == [-1, 0, 1]
    assert sd.GaussianNB(loss="nll").fit(TABLE[:N], HIDDEN).classes_.tolist() == [-1, 0, 1]
    for loss in ("nll", "hinge"):
        assert MultinomialNB(loss=loss, unlabelled=-1, n_epochs=1).fit(ROWS, HIDDEN).classes_.tolist() == [0, 1]
    texts = HIDDEN.astype(str)  # as a file has them
    assert MultinomialNB(loss="nll", unlabelled=-1, n_epochs=1).fit(ROWS, texts).classes_.tolist() == ["0", "1"]
    with pytest.raises(CorpusError, match="a class -1, which unlabelled names"):
        MultinomialNB(unlabelled=-1).fit(sd.write_corpus(tmp_path / "c", ROWS, texts))


def test_nothing_hidden_changes_nothing():
    plain = MultinomialNB(loss="nll").fit(ROWS, Y)
    model = MultinomialNB(loss="nll", unlabelled=-1, n_epochs=3).fit(ROWS, Y)
    np.testing.assert_array_equal(model.feature_log_prob_, plain.feature_log_prob_)


def test_a_resumed_run_knows_another_weight(tmp_path):
    def model(weight: float) -> MultinomialNB:
        return MultinomialNB(unlabelled=-1, unlabelled_weight=weight, calibrate=False, n_epochs=2)

    model(0.1).fit(ROWS, HIDDEN, checkpoint=tmp_path / "k")
    for weight, named in ((0.2, r"unlabelled_weight 0.1"), (0.0, "other settings")):  # 0: labelled documents alone
        with pytest.raises(OtherRunError, match=named):
            model(weight).fit(ROWS, HIDDEN, checkpoint=tmp_path / "k", resume=True)


REFUSED = {
    "MultinomialNB": "1,176 documents without a label",
    "LDAClassifier": "does not take: MultinomialNB and SupervisedLDAClassifier do",
    "MultiplicativeMixtureClassifier": "does not take: MultinomialNB and SupervisedLDAClassifier do",
    "MultiLabelNB": "MultiLabelNB takes only if documents have sets of labels",
    "EMMixtureClassifier": r"only if unlabelled is set \(unlabelled=-1\)",
}


def test_others_say_who_takes_them(tmp_path):
    corpus = sd.write_corpus(tmp_path / "c.zarr", ROWS, HIDDEN, unlabelled=-1)
    for name, said in REFUSED.items():
        with pytest.raises(CorpusError, match=said):
            getattr(sd, name)(**({"components": "multinomial"} if name == "EMMixtureClassifier" else {})).fit(corpus)
    assert MultinomialNB(loss="nll", unlabelled=-1).fit(corpus).score(ROWS, Y) > 0.8


SHARES = np.random.default_rng(4).dirichlet(np.full(4, 0.2), N + TEST)
OF_SHARES = sp.csr_matrix(np.array([RNG.multinomial(15, shares @ TOPICS) for shares in SHARES]))
EIGHTH = np.where(np.arange(N) % 8 == 0, SHARES[:N].argmax(axis=1), -1)


@pytest.mark.parametrize("merge", ["mean", "sum"])
def test_a_larger_weight_explains_the_words_better(merge):
    def explained(model) -> float:
        p = model.transform(OF_SHARES[N:]) @ model.components_
        return float(OF_SHARES[N:].multiply(np.log(p)).sum() / TEST)

    plain, weighted = (
        SupervisedLDARegressor(words_weight=weight, merge=merge, **SMALL).fit(OF_SHARES[:N], SHARES[:N, 0])
        for weight in (0.0, 10.0)
    )
    assert explained(weighted) > explained(plain) + 1.0
    assert weighted.score(OF_SHARES[N:], SHARES[N:, 0]) > 0.5


def test_held_out_documents_choose_a_weight_that_helps():
    model = SupervisedLDAClassifier(words_weight="auto", unlabelled=-1, **SMALL).fit(OF_SHARES[:N], EIGHTH)
    chosen = model.learner_.model.words_weight
    assert chosen > 0.0 == model.learner_.held_out
    given = SupervisedLDAClassifier(words_weight=chosen, unlabelled=-1, **SMALL).fit(OF_SHARES[:N], EIGHTH)
    np.testing.assert_array_equal(given.predict_proba(OF_SHARES), model.predict_proba(OF_SHARES))
    with pytest.raises(ValueError, match="needs 100 labelled documents"):
        SupervisedLDAClassifier(words_weight="auto", unlabelled=-1).fit(OF_SHARES[:300], EIGHTH[:300])


def test_a_corpus_on_disk_and_a_cluster_choose_the_same_weight(tmp_path, client):
    corpus = sd.write_corpus(tmp_path / "c.zarr", OF_SHARES[:N], EIGHTH, unlabelled=-1, shard_documents=300)
    assert sum(corpus.header.class_counts) == N // 8
    read = corpus.read(0, N)
    known = read.labels >= 0
    model = SupervisedLDAClassifier(words_weight="auto", n_lanes=3, **SMALL | {"n_epochs": 2})
    here = bits(model.fit(corpus))
    assert model.evaluate(corpus)["accuracy"] == pytest.approx(model.score(read.to_csr()[known], read.labels[known]))
    assert bits(model.fit(corpus, client=client)) == here
