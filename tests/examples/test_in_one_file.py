"""The package's paper steps and the plain program of the examples are one algorithm."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from reference.random_documents import lane_order, random_counts, stored_order

import sdem_dist as sd

FILE = Path(__file__).parents[2] / "examples" / "sdem_in_one_file.py"
PLAIN = runpy.run_path(str(FILE))


@pytest.mark.parametrize(("seed", "decay"), [(0, 1e-5), (7, 0.1)])
@pytest.mark.parametrize("loss", ["ncll", "hinge"])
def test_paper_steps_of_counts_agree_to_the_last_digits(loss, seed, decay):
    X, y = random_counts(seed=seed)
    settings = {"steps": "paper", "step_decay": decay, "weighting": "counts", "validation_fraction": 0.0, "n_lanes": 1}
    model = sd.MultinomialNB(loss=loss, n_epochs=2, random_state=seed, **settings).fit(X, y)
    stored = stored_order(len(y), seed)
    plain, t = PLAIN["Counts"](3, X.shape[1]), 0.0
    for epoch in range(2):
        order = lane_order(len(y), seed, epoch, 0, 0)
        t = PLAIN["sdem"](plain, X[stored].toarray().astype(float), y[stored], order, loss, decay, t)
    log_words = np.log((plain.N + plain.gamma) / (plain.M + plain.gamma * X.shape[1])[:, None])
    np.testing.assert_allclose(model.feature_log_prob_, log_words, rtol=1e-12)
    np.testing.assert_allclose(model.state_.class_counts, plain.C, rtol=1e-12)
    np.testing.assert_allclose(model.state_.gamma, plain.gamma, rtol=1e-12)


@pytest.mark.parametrize("loss", ["ncll", "hinge"])
def test_paper_steps_of_gaussians_agree_to_the_last_digits(loss):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 80)
    X = 4.0 + rng.normal(size=(80, 2)) * (1.0 + y[:, None]) + y[:, None]
    settings = {"step": "paper", "merge": "mean", "n_lanes": 1, "batch_size": 1, "step_decay": 0.1}
    model = sd.GaussianNB(loss=loss, n_epochs=2, random_state=5, **settings).fit(X, y)
    stored = stored_order(len(y), 5)
    plain, t = PLAIN["Gaussians"](3, 2), 0.0
    for epoch in range(2):
        order = lane_order(len(y), 5, epoch, 0, 0)
        t = PLAIN["sdem"](plain, X[stored], y[stored], order, loss, decay=0.1, t=t)
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
