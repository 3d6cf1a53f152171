"""Mixtures of half-labelled corpora: documents without a label belong to any component of any class."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import sdem_dist as sd
from sdem_dist.errors import CorpusError

RNG = np.random.default_rng(0)
N, TEST = 1200, 400
TOPICS = RNG.dirichlet(np.full(200, 0.2), 4)
PART = RNG.integers(0, 4, N + TEST)
Y = PART // 2
X = sp.csr_matrix(np.array([RNG.multinomial(25, 0.4 * TOPICS[k] + 0.6 / 200) for k in PART]))
HIDDEN = np.where(np.arange(N) % 50 == 0, Y[:N], -1)
CENTRES = np.array([[0.0, 0.0], [4.0, 4.0], [0.0, 4.0], [4.0, 0.0]])
TABLE = CENTRES[PART] + RNG.normal(size=(N + TEST, 2))


@pytest.mark.parametrize("kind", [sd.EMMixtureClassifier, sd.SdemMixtureClassifier])
def test_they_help_counts_where_few_have_labels(kind):
    known = HIDDEN >= 0
    alone = kind(2, components="multinomial").fit(X[:N][known], HIDDEN[known])
    helped = kind(2, components="multinomial", unlabelled=-1).fit(X[:N], HIDDEN)
    assert helped.classes_.tolist() == [0, 1]
    assert helped.score(X[N:], Y[N:]) > alone.score(X[N:], Y[N:]) + 0.03


def test_an_iteration_of_em_shares_hidden_documents_among_all_components():
    # Without labels of its own a document has the posterior of a component of any class, times the weight.
    one = sd.EMMixtureClassifier(2, components="multinomial", unlabelled=-1, unlabelled_weight=0.5, n_epochs=1)
    more = sd.EMMixtureClassifier(2, components="multinomial", unlabelled=-1, unlabelled_weight=0.5, n_epochs=2)
    first, second = (model.fit(X[:N], HIDDEN) for model in (one, more))
    words, mixing = first.theta_, first.log_weights_.max(axis=0)
    scores = X[:N] @ words.T + mixing
    mine = np.array([0, 0, 1, 1]) == HIDDEN[:, None]
    scores = np.where(mine | (HIDDEN < 0)[:, None], scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares *= np.where(HIDDEN < 0, 0.5, 1.0)[:, None] / shares.sum(axis=1, keepdims=True)
    expected = X[:N].T @ shares + 1.0
    np.testing.assert_allclose(np.exp(second.theta_).T, expected / expected.sum(axis=0), rtol=1e-8)


@pytest.mark.parametrize("kind", [sd.EMMixtureClassifier, sd.SdemMixtureClassifier])
def test_weight_0_is_as_if_they_were_not_there_but_for_the_prior(kind):
    # Of a table: the class of a row with weight 0 moves nothing, whatever the row is.
    far = np.concatenate([TABLE[:N], TABLE[:N][HIDDEN < 0][::-1]])
    hidden = np.concatenate([HIDDEN, np.full((HIDDEN < 0).sum(), -1)])
    without = kind(2, unlabelled=-1, unlabelled_weight=0.0, random_state=1).fit(far, hidden)
    full = kind(2, unlabelled=-1, unlabelled_weight=1.0, random_state=1).fit(far, hidden)
    assert not np.array_equal(without.theta_, full.theta_)
    np.testing.assert_allclose(np.exp(without.class_log_prior_).sum(), 1.0)
    assert without.score(TABLE[N:], Y[N:]) > 0.8


def test_others_say_who_takes_them(tmp_path):
    corpus = sd.write_corpus(tmp_path / "c.zarr", X[:N], HIDDEN, unlabelled=-1)
    for kind in (sd.LDAClassifier, sd.MultiplicativeMixtureClassifier):
        with pytest.raises(CorpusError, match="does not take: MultinomialNB and SupervisedLDAClassifier do"):
            kind().fit(corpus)
    with pytest.raises(CorpusError, match="MultiLabelNB takes only if documents have sets of labels"):
        sd.MultiLabelNB().fit(corpus)
    with pytest.raises(CorpusError, match=r"only if unlabelled is set \(unlabelled=-1\)"):
        sd.EMMixtureClassifier(components="multinomial").fit(corpus)
