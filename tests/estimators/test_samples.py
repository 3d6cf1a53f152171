"""Models of all that documents hold draw documents, which the model takes for what they are."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

import sdem_dist as sd

IRIS, SPECIES = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)
Y = np.array(["a", "b", "c"])[np.arange(400) % 3]
MEANS = np.array([[9, 1, 1, 4], [1, 9, 4, 1], [1, 1, 9, 4], [9, 4, 1, 1], [4, 9, 1, 9], [1, 4, 9, 1]], float) * 2.0
COUNTS = RNG.poisson(MEANS[2 * (np.arange(400) % 3) + RNG.integers(0, 2, 400)]).astype(float)
EM = {"n_components": 2, "n_epochs": 10}
KINDS = {0: "poisson", 1: "exponential"}
# A model, what it is fitted to, and the accuracy that its own samples have at least.
MODELS = {
    "Gaussian": (sd.GaussianNB(loss="nll"), IRIS, SPECIES, 0.9),
    "Gaussian, trained": (sd.GaussianNB(n_epochs=2), IRIS, SPECIES, 0.9),
    "Bernoulli": (sd.BernoulliNB(n_epochs=2, binarize=None), 1.0 * (COUNTS > 8), Y, 0.55),
    "categories": (sd.CategoricalNB(n_epochs=2), COUNTS, Y, 0.6),
    "Poisson": (sd.PoissonNB(n_epochs=2), COUNTS, Y, 0.85),
    "mixed": (sd.MixedNB(n_epochs=2, kinds=KINDS), COUNTS, Y, 0.6),
    "mixture of Gaussians": (sd.EMMixtureClassifier(**EM), COUNTS, Y, 0.85),
    "mixture of exponentials": (sd.EMMixtureClassifier(components="exponential", offset=0.1, **EM), COUNTS, Y, 0.55),
    "mixture of counts": (sd.EMMixtureClassifier(components="multinomial", **EM), COUNTS, Y, 0.85),
    "clusters of counts": (sd.MultinomialMixture(3, n_init=3, n_epochs=20), sp.csr_matrix(COUNTS), None, 0.9),
}


@pytest.fixture(scope="module")
def fitted():
    return {n: model.fit(X) if y is None else model.fit(X, y) for n, (model, X, y, _) in MODELS.items()}


@pytest.mark.parametrize("name", MODELS)
def test_samples_come_from_the_model(fitted, name):
    model, (_, X, _, least) = fitted[name], MODELS[name]
    counts = hasattr(model, "component_log_prob_") or getattr(model, "components", None) == "multinomial"
    rows, y = model.sample(5000, 1, **({"length": 60} if counts else {}))
    assert rows.shape == (5000, 4)
    assert (model.predict(rows) == y).mean() > least
    log_prior = getattr(model, "component_log_prior_" if name.startswith("clusters") else "class_log_prior_")
    found = [np.mean(y == label) for label in getattr(model, "classes_", range(3))]
    np.testing.assert_allclose(found, np.exp(log_prior), atol=0.03)
    if counts:
        assert (rows.sum(axis=1) == 60).all()
    elif name != "categories":  # their pseudo-counts are many
        np.testing.assert_allclose(rows.mean(axis=0), X.mean(axis=0), rtol=0.15)
    if hasattr(model, "var_"):
        for k in range(3):
            np.testing.assert_allclose(rows[y == k].mean(axis=0), model.theta_[k], atol=0.06)
            np.testing.assert_allclose(rows[y == k].var(axis=0), model.var_[k], rtol=0.15)
    if hasattr(model, "predict_joint_log_proba"):
        dense = rows.toarray() if sp.issparse(rows) else rows
        joint = model.predict_joint_log_proba(dense)
        np.testing.assert_allclose(model.score_samples(dense), np.logaddexp.reduce(joint, axis=1), rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in MODELS if "counts" not in name])
def test_samples_of_any_number(fitted, name):
    model = fitted[name]
    for n in (0, 1, 7):
        rows, y = model.sample(n, random_state=0)
        assert (rows.shape, y.shape, rows.dtype) == ((n, 4), (n,), np.float64)
        assert y.dtype == model.classes_.dtype
    for n in (-1, 1.5, "many"):
        with pytest.raises(ValueError, match="n_samples must be an integer"):
            model.sample(n)
