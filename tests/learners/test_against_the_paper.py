"""The trained parameters agree to rounding with the plain program of `examples/sdem_in_one_file.py`."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from reference.random_documents import lane_order, random_counts, stored_order

from sdem_dist import GaussianNB, MultinomialNB

FILE = Path(__file__).parents[2] / "examples" / "sdem_in_one_file.py"
PLAIN = SimpleNamespace(**runpy.run_path(str(FILE)))
LOSSES = ("ncll", "hinge")
PAPER = {"steps": "paper", "weighting": "counts", "validation_fraction": 0.0, "n_lanes": 1}
"""The paper's algorithm: one step of rho_0 = 1 a document, over counts."""


def visit(plain, X, y, order, loss, *, n, decay=1e-5, t=0.0, weights=None) -> float:
    """Visit documents, of weights if there are any; return the weight that was seen."""
    for i in order:
        weight, x = 1.0 if weights is None else weights[i], X[[i]].toarray()[0].astype(float)
        t += weight
        rho = 1 / (1 + decay * t)
        plain.add_prior(weight * rho / n)
        plain.step(x, weight * PLAIN.WEIGHTS[loss](plain.scores(x), y[i]), rho, rho / n)
    return t


def started(n_classes, n_words, prior):
    return PLAIN.Counts(n_classes, n_words, {"laplace": 1.0, "log": float(np.log(n_words))}.get(prior, prior))


def compare(X, y, loss: str, prior, seed: int, n_epochs: int = 1, weights=None, decay: float = 1e-5, fixed=None):
    """Train both: one lane, one round, steps of one document, gamma of the moment; return the plain one's counts."""
    settings = {"loss": loss, "alpha": prior, "n_epochs": n_epochs, "random_state": seed, "step_decay": decay, **PAPER}
    model = MultinomialNB(class_prior=fixed, **settings).fit(X, y, sample_weight=weights)
    if weights is not None:  # documents of weight 0 count nowhere, and the weights of the others are relative
        rows = np.flatnonzero(weights)
        X, y, weights = X[rows], y[rows], weights[rows] / weights[rows].mean()
    stored = stored_order(len(y), seed)
    X, labels = X[stored], np.searchsorted(model.classes_, y[stored])
    plain, t = started(len(model.classes_), X.shape[1], prior), 0.0
    if fixed is not None:
        plain.C = 1e15 * np.asarray(fixed)  # steps are nothing to it
    of_documents = {"n": len(y), "decay": decay, "weights": None}
    if weights is not None:
        of_documents |= {"n": weights.sum(), "weights": weights[stored]}
    for epoch in range(n_epochs):
        t = visit(plain, X, labels, lane_order(len(y), seed, epoch, 0, 0), loss, t=t, **of_documents)
    log_words = np.log((plain.N + plain.gamma) / (plain.M + plain.gamma * X.shape[1])[:, None])
    np.testing.assert_allclose(model.feature_log_prob_, log_words, rtol=1e-12)
    shares = (plain.C + plain.class_gamma) / (plain.C + plain.class_gamma).sum()
    np.testing.assert_allclose(np.exp(model.class_log_prior_), shares, rtol=1e-9)
    if fixed is None:
        state = model.state_
        for one, other in zip(state, (plain.N.T, plain.M, plain.C, plain.gamma, plain.class_gamma), strict=False):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.t, t, rtol=1e-12)
    return plain


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("prior", ["laplace", "log", 0.1])
@pytest.mark.parametrize("seed", [0, 7])
def test_one_lane_is_the_papers_algorithm(loss, prior, seed):
    X, y = random_counts(seed=seed)
    plain = compare(X, y, loss, prior, seed)
    assert (plain.N == 0).any() or prior != 0.1  # the check step is exercised
    assert not np.allclose(plain.N, started(3, X.shape[1], prior).N)


@pytest.mark.parametrize("loss", LOSSES)
def test_several_epochs_weights_a_fast_decay_and_a_fixed_class_prior(loss):
    X, y = random_counts(60, 20, 4, seed=3)
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.5], len(y))
    compare(X.astype(float) * 0.37, y, loss, "laplace", 2, 3, weights, decay=0.01)
    compare(*random_counts(50, 25, 3, seed=9), loss, "laplace", 0, fixed=[0.6, 0.3, 0.1])


@pytest.mark.parametrize("loss", LOSSES)
def test_paper_steps_of_gaussians_agree_to_the_last_digits(loss):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 80)
    X = 4.0 + rng.normal(size=(80, 2)) * (1.0 + y[:, None]) + y[:, None]
    settings = {"step": "paper", "merge": "mean", "n_lanes": 1, "batch_size": 1, "step_decay": 0.1}
    model = GaussianNB(loss=loss, n_epochs=2, random_state=5, **settings).fit(X, y)
    stored = stored_order(len(y), 5)
    plain, t = PLAIN.Gaussians(3, 2), 0.0
    for epoch in range(2):
        t = PLAIN.sdem(plain, X[stored], y[stored], lane_order(len(y), 5, epoch, 0, 0), loss, decay=0.1, t=t)
    np.testing.assert_allclose(model.state_.class_counts, plain.N, rtol=1e-12)
    mu = np.stack([plain.S, plain.V], axis=2).reshape(3, 4) / plain.N[:, None]
    np.testing.assert_allclose(model.state_.mu, mu, rtol=1e-12)


def test_it_prints_its_table(capsys):
    runpy.run_path(str(FILE), run_name="__main__")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["nll", "ncll", "hinge"]
    toy = [float(row[1]) for row in rows]
    assert toy[0] < 0.80 < 0.90 < min(toy[1:])  # the paper: .786, .904, .906
    assert FILE.read_text().count("\n") <= 200
