"""A fitted model under another p(y): `with_class_prior`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from sdem_dist import GaussianNB, load_model

IRIS, SPECIES = load_iris(return_X_y=True)


@pytest.mark.parametrize("loss", ["nll", "ncll"])
def test_another_class_prior_is_saved(loss, tmp_path):
    moved = GaussianNB(loss=loss, n_epochs=3).fit(IRIS, SPECIES).with_class_prior([0.3, 0.7, 0.0])
    moved.save(tmp_path / "moved.model")
    again = load_model(tmp_path / "moved.model")
    np.testing.assert_array_equal(again.class_log_prior_, moved.class_log_prior_)
    np.testing.assert_array_equal(again.predict_proba(IRIS), moved.predict_proba(IRIS))


@pytest.mark.parametrize("loss", ["nll", "ncll"])
def test_class_priors_take_the_place_of_each_other(loss):
    model = GaussianNB(loss=loss, n_epochs=3).fit(IRIS, SPECIES)
    back = model.with_class_prior([0.9, 0.1, 0.0]).with_class_prior([1 / 3, 1 / 3, 1 / 3])
    np.testing.assert_allclose(back.predict_proba(IRIS), model.predict_proba(IRIS), rtol=1e-9)


def test_other_class_priors_after_fixed_or_weighted_ones():
    wanted = [0.1, 0.1, 0.8]
    for settings in ({}, {"fit_prior": False}, {"class_prior": [0.5, 0.4, 0.1]}, {"class_weight": "balanced"}):
        model = GaussianNB(loss="nll", **settings).fit(IRIS[:120], SPECIES[:120])
        before = model.class_log_prior_.copy()
        np.testing.assert_allclose(np.exp(model.with_class_prior(wanted).class_log_prior_), wanted)
        np.testing.assert_array_equal(model.class_log_prior_, before)
    for odd, said in (([0.5, 0.5], "number of classes"), (pd.Series([2.0, 1.0, 1.0]), "sum of the priors")):
        with pytest.raises(ValueError, match=said):
            model.with_class_prior(odd)
    model = GaussianNB(n_epochs=5, class_weight="balanced").fit(IRIS[:120], SPECIES[:120])
    moved = model.with_class_prior(wanted)
    assert np.exp(moved.class_log_prior_).sum() == pytest.approx(1.0)
    # weights made the classes alike: what was equal before now differs by the shares
    gain = moved.class_log_prior_ - model.class_log_prior_
    assert gain[2] - gain[0] == pytest.approx(np.log(8.0))
    assert gain[1] - gain[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("loss", ["nll", "ncll"])
def test_a_class_of_weight_zero_can_be_given_no_share(loss):
    model = GaussianNB(loss=loss, n_epochs=3).fit(IRIS, SPECIES, sample_weight=(SPECIES < 2).astype(float))
    with pytest.raises(ValueError, match="class 2: its share must be 0"):
        model.with_class_prior([0.3, 0.3, 0.4])
    moved = model.with_class_prior([0.3, 0.7, 0.0])
    assert moved.predict_proba(IRIS)[:, 2].max() == 0.0
