"""`GaussianMixture` and `ExponentialMixture`, as a user has them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as Peer

from sdem_dist import ExponentialMixture, GaussianMixture, load_model
from sdem_dist.models.em import FORMS

IRIS, KINDS = load_iris(return_X_y=True)


def test_it_finds_what_scikit_learn_does():
    """Its likelihood, where the prior weighs nothing: the same maximum, or a higher one."""
    for X, k in ((IRIS, 3), (load_wine().data, 3)):
        peer = Peer(k, covariance_type="diag", n_init=10, reg_covar=1e-9, tol=1e-10, max_iter=1000, random_state=0)
        ours = GaussianMixture(k, alpha=1e-9, n_epochs=400, n_init_epochs=20, evaluate_every=100).fit(X)
        assert ours.score(X) >= peer.fit(X).score(X) - 1e-3


def test_from_where_scikit_learn_ends_nothing_moves():
    """The parameters are its parameters: score, bic, samples' probabilities."""
    peer = Peer(3, covariance_type="diag", n_init=10, reg_covar=0, tol=1e-12, max_iter=2000, random_state=0).fit(IRIS)
    ours = GaussianMixture(3, alpha=1e-9, n_epochs=1000, n_init=20, evaluate_every=1000).fit(IRIS)
    if ours.score(IRIS) > peer.score(IRIS) + 1e-6:  # a better maximum than the peer's
        peer = Peer(3, covariance_type="diag", reg_covar=0, tol=1e-12, max_iter=2000)
        peer.weights_init, peer.means_init = ours.weights_, ours.means_
        peer.precisions_init = 1 / ours.covariances_
        peer.fit(IRIS)
    order = [int(((ours.means_ - m) ** 2).sum(axis=1).argmin()) for m in peer.means_]
    np.testing.assert_allclose(ours.weights_[order], peer.weights_, atol=1e-4)
    np.testing.assert_allclose(ours.means_[order], peer.means_, atol=1e-3)
    np.testing.assert_allclose(ours.covariances_[order], peer.covariances_, atol=1e-3)
    assert ours.score(IRIS) == pytest.approx(peer.score(IRIS), abs=1e-6)
    assert ours.bic(IRIS) == pytest.approx(peer.bic(IRIS), abs=1e-2)
    np.testing.assert_allclose(ours.predict_proba(IRIS)[:, order], peer.predict_proba(IRIS), atol=1e-3)


@pytest.mark.parametrize("em", FORMS)
@pytest.mark.parametrize("kind", [GaussianMixture, ExponentialMixture])
def test_clusters_are_found_by_every_em_and_kept_in_files(kind, em, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    scales = np.array([[1.0, 30.0, 1.0, 30], [30.0, 1.0, 30.0, 1.0], [30.0, 30.0, 900.0, 900.0]])[y]
    X = rng.exponential(scales) if kind is ExponentialMixture else rng.normal(np.log(scales), 0.5)
    model = kind(3, em=em, n_init=3, n_epochs=20).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.85
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.lower_bound_ == model.lower_bound_
    rows, clusters = loaded.sample(3000, random_state=0)
    assert (loaded.predict(rows) == clusters).mean() > 0.85
    np.testing.assert_allclose(np.bincount(clusters) / 3000, model.weights_, atol=0.05)


def test_missing_values_are_summed_out():
    rng = np.random.default_rng(1)
    X = np.where(rng.random(IRIS.shape) < 0.15, np.nan, IRIS)
    model = GaussianMixture(3, n_init=5).fit(X)
    assert adjusted_rand_score(KINDS, model.labels_) > 0.6
    assert np.isfinite(model.score_samples(np.full((1, 4), np.nan))).all()
    with pytest.raises(ValueError, match="takes no missing values"):
        GaussianMixture(3, em="variational", n_init=1).fit(X)
