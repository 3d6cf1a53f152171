"""`KMeans`, as a user has it."""

from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans as Peer
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfTransformer

from sdem_dist import KMeans, load_model
from sdem_dist.reports.top_words import top_words

DIGITS = load_digits().data
RNG = np.random.default_rng(0)
TOPICS = RNG.dirichlet(np.full(50, 0.1), 4)
Y = RNG.integers(0, 4, 500)
COUNTS = sp.csr_matrix(np.array([RNG.multinomial(30, TOPICS[y]) for y in Y]))
TEXTS = ["a goal in the match", "a late goal", "the bank raises rates", "rates of the bank"] * 5


def same_partition(a, b):
    return len(set(zip(a.tolist(), b.tolist(), strict=True))) == len(set(a.tolist())) == len(set(b.tolist()))


def test_digits_are_as_near_to_centres_as_scikit_learn_s():
    peer = Peer(10, n_init=10, random_state=0).fit(DIGITS)
    ours = KMeans(10).fit(DIGITS)
    assert ours.inertia_ <= 1.01 * peer.inertia_
    nearest = ((DIGITS[:, None] - ours.cluster_centers_[None]) ** 2).sum(axis=2).min(axis=1)
    assert ours.inertia_ == pytest.approx(nearest.sum(), rel=1e-9)
    assert ours.score(DIGITS) == pytest.approx(-ours.inertia_, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [True, False])
def test_r8_is_too(weighted):
    if "SDEM_CORPORA" not in os.environ:
        pytest.skip("set SDEM_CORPORA to the folder of the real corpora")
    from benchmarks.corpora import load

    X = load("r8").X
    rows = TfidfTransformer(sublinear_tf=True).fit_transform(X)
    ours = KMeans(8).fit(rows if weighted else X)
    assert ours.inertia_ <= 1.01 * Peer(8, n_init=10, random_state=0).fit(rows).inertia_


def test_counts_are_weighed_as_scikit_learn_does():
    rows = TfidfTransformer(sublinear_tf=True).fit_transform(COUNTS)
    ours = KMeans(4).fit(COUNTS)
    peer = Peer(4, n_init=10, random_state=0).fit(rows)
    assert ours.inertia_ == pytest.approx(peer.inertia_, rel=1e-5)
    assert same_partition(ours.labels_, peer.labels_)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_words_of_clusters_are_those_that_set_centres_apart(metric, tmp_path):
    rare = [f"{text} aa{i}" for i, text in enumerate(TEXTS)]  # words of one document, first by the alphabet
    model = KMeans(2, metric=metric).fit(rare)
    goals, banks = (int(c) for c in model.predict([TEXTS[0], TEXTS[2]]))
    model.save(tmp_path / "model")
    for of in (model, load_model(tmp_path / "model")):
        said = top_words(of, 2)
        assert said[goals][0] == "goal" and set(said[banks]) == {"bank", "rates"}
        assert said[banks][0] in model.report(rare).words[banks].split()[:2]


def test_spherical_clusters_do_not_depend_on_lengths():
    model = KMeans(4, metric="cosine", weighting="counts").fit(COUNTS)
    assert same_partition(model.labels_, Y)
    np.testing.assert_allclose((model.cluster_centers_**2).sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(COUNTS * 7), model.labels_)
    cosines = np.cos(np.zeros(1)) - 0.5 * model.transform(COUNTS) ** 2  # |x - c|^2 = 2 - 2 cos
    rows = COUNTS.toarray() / np.sqrt((COUNTS.toarray() ** 2).sum(axis=1))[:, None]
    np.testing.assert_allclose(cosines, rows @ model.cluster_centers_.T, atol=1e-10)


def test_a_seed_s_draws_and_longer_training_only_lower_the_inertia():
    short, long = (KMeans(10, init_documents=50, n_epochs=n).fit(DIGITS).inertia_ for n in (1, 20))
    assert long < short


def test_texts_are_taken_and_words_told():
    model = KMeans(2, metric="cosine").fit(TEXTS)
    assert same_partition(model.labels_, np.array([0, 0, 1, 1] * 5))
    said = str(model.report(TEXTS))
    assert "goal" in said and "rates" in said


@pytest.mark.parametrize(
    ("settings", "X", "said"),
    [
        ({"weighting": "tfidf"}, COUNTS * 0.5, "is for whole counts"),
        ({"weighting": "tfidf"}, DIGITS, "is for whole counts"),
        ({}, np.where(np.arange(64) == 3, np.nan, DIGITS), "contains NaN"),
    ],
)
def test_what_makes_no_sense_is_named(settings, X, said):
    with pytest.raises(ValueError, match=said):
        KMeans(**settings).fit(X)
