"""The length of a document as a part of naive Bayes: what it adds, what is drawn, what explanations say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

import sdem_dist as sd
from sdem_dist.documents import Documents
from sdem_dist.errors import ModelError
from sdem_dist.learners.length_sums import Lengths
from sdem_dist.models.document_lengths import KINDS, DocumentLengths, fitted
from sdem_dist.testing import check_learner

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 900)
WORDS = RNG.dirichlet(np.full(40, 3.0))  # the same in all classes: only lengths tell
N_WORDS = 1 + RNG.poisson(RNG.gamma(2.0, np.array([2.0, 8.0, 30.0])[Y]))
X = sp.csr_matrix(np.array([RNG.multinomial(n, WORDS) for n in N_WORDS]))


def test_laws_of_the_sums():
    documents = Documents(
        X.data.astype(float), X.indices.astype(np.uint32), X.indptr.astype(np.int64), 40, Y.astype(np.int32)
    )
    check_learner(Lengths(3), documents)
    found = Lengths(3).map(Lengths(3).init(), documents, None)
    np.testing.assert_allclose(found.sums, np.bincount(Y, N_WORDS))


def test_the_probabilities_are_those_of_scipy():
    x = np.arange(60.0)
    poisson = DocumentLengths((3.0, 20.0)).log_probabilities(x)
    np.testing.assert_allclose(poisson, stats.poisson([3.0, 20.0]).logpmf(x[:, None]), atol=1e-10)
    wide = DocumentLengths((3.0, 20.0), (0.7, 4.0)).log_probabilities(x)
    r, mean = np.array([0.7, 4.0]), np.array([3.0, 20.0])
    np.testing.assert_allclose(wide, stats.nbinom(r, r / (r + mean)).logpmf(x[:, None]), atol=1e-9)


def test_the_moments_come_back():
    lengths, classes = DocumentLengths((5.0, 40.0), (2.0, 10.0)), np.repeat([0, 1], 60_000)
    drawn = lengths.sample(classes, np.random.default_rng(1)).astype(float)
    sums = (np.bincount(classes, w) for w in (np.ones(len(drawn)), drawn, drawn**2))
    found = fitted("negative-binomial", *sums)
    np.testing.assert_allclose(found.means, lengths.means, rtol=0.02)
    np.testing.assert_allclose(found.sizes, lengths.sizes, rtol=0.1)
    without = fitted("poisson", np.array([10.0, 0.0]), np.array([50.0, 0.0]), np.array([300.0, 0.0]))
    np.testing.assert_allclose(without.means, [5.0, 5.0])


@pytest.mark.parametrize("kind", KINDS)
def test_they_tell_classes_apart_and_add_up(kind, tmp_path):
    plain = sd.MultinomialNB(loss="nll").fit(X[:600], Y[:600])
    model = sd.MultinomialNB(loss="nll", lengths=kind).fit(X[:600], Y[:600])
    assert plain.score(X[600:], Y[600:]) < 0.5 < model.score(X[600:], Y[600:])
    part = model.learner_.model.lengths.log_probabilities(N_WORDS[600:])
    added = model.predict_joint_log_proba(X[600:]) - plain.predict_joint_log_proba(X[600:])
    np.testing.assert_allclose(added, part, atol=1e-9)
    for told in model.explain(X[600:620]):
        assert told.offset_name == "length of the document"
        assert told.prior + sum(word.part for word in told.words) + told.offset == pytest.approx(told.log_odds)
    model.save(tmp_path / "model")
    loaded = sd.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    corpus = sd.write_corpus(tmp_path / "c.zarr", X[:600], Y[:600], shard_documents=200)
    on_disk = sd.MultinomialNB(loss="nll", lengths=kind).fit(corpus)
    np.testing.assert_allclose(on_disk.predict_proba(X), model.predict_proba(X))
    assert model.evaluate(X[600:], Y[600:])["accuracy"] == pytest.approx(model.score(X[600:], Y[600:]))


def test_samples_have_the_lengths_of_their_class():
    model = sd.MultinomialNB(loss="nll", lengths="negative-binomial").fit(X, Y)
    drawn, y = model.sample(3000, random_state=0)
    found, real = np.asarray(drawn.sum(axis=1)).ravel(), [N_WORDS[np.equal(Y, k)] for k in range(3)]
    for k in range(3):
        assert found[y == k].mean() == pytest.approx(real[k].mean(), rel=0.1)
        assert found[y == k].std() == pytest.approx(real[k].std(), rel=0.2)
    fixed, _ = sd.MultinomialNB(loss="nll").fit(X, Y).sample(5, random_state=0, length=7)
    assert np.asarray(fixed.sum(axis=1)).ravel().tolist() == [7] * 5


def test_what_does_not_go_together_is_named():
    for other in ({"loss": "hinge"}, {"loss": "nll", "weighting": "tfidf"}, {"loss": "nll", "unlabelled": -1}):
        with pytest.raises(ValueError, match="lengths='poisson' is for counts with loss='nll'"):
            sd.MultinomialNB(lengths="poisson", **other).fit(X, Y)
    with pytest.raises(ModelError, match="sample needs a model of counts with loss='nll'"):
        sd.MultinomialNB().fit(X, Y).sample(3)
    model = sd.MultinomialNB(loss="nll", lengths="poisson")
    with pytest.raises(ValueError, match="by fit alone"):
        model.partial_fit(X, Y, classes=[0, 1, 2])
    with pytest.raises(ModelError, match="not a linear part"):
        model.fit(X, Y).to_sklearn()
