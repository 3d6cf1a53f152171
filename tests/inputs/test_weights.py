"""Weights of documents: those of discriminative losses are relative, and a document of weight 0 counts nowhere."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import sdem_dist as sd

RNG = np.random.default_rng(0)
N, WORDS = 120, 30
Y = RNG.integers(0, 3, N)
COUNTS = RNG.poisson(np.where(np.arange(WORDS) % 3 == Y[:, None], 1.2, 0.4))
TABLE = RNG.normal(size=(N, 4)) + Y[:, None]
TEXTS = [" ".join(f"w{w}" for w in np.flatnonzero(row)) + f" only{i}" for i, row in enumerate(COUNTS)]
WEIGHTS = RNG.uniform(0.5, 2.0, N)
RELATIVE = {
    "hinge": (sd.MultinomialNB(loss="hinge"), COUNTS), "ncll": (sd.MultinomialNB(loss="ncll"), COUNTS),
    "auto, of texts": (sd.MultinomialNB(), TEXTS), "many classes": (sd.ManyClassNB(), COUNTS),
    "several labels": (sd.MultiLabelNB(), COUNTS), "numbers": (sd.GaussianNB(), TABLE),
    "yes and no": (sd.BernoulliNB(), (COUNTS > 0).astype(float)), "mixture": (sd.SdemMixtureClassifier(2), TABLE),
    "topics": (sd.LDAClassifier(n_components=2), COUNTS),
}  # fmt: skip
ABSOLUTE = {
    "counts, nll": (sd.MultinomialNB(loss="nll"), COUNTS),
    "texts, nll": (sd.MultinomialNB(loss="nll"), TEXTS),
    "numbers, nll": (sd.GaussianNB(loss="nll"), TABLE),
    "EM": (sd.EMMixtureClassifier(2), TABLE),
    "regression": (sd.GaussianRegressor(), TABLE),
    "clusters": (sd.KMeans(3), TABLE),
}
ALL = {**RELATIVE, **ABSOLUTE}


def target(name):
    if name == "several labels":
        return [[int(k), 3] if i % 2 else [int(k)] for i, k in enumerate(Y)]
    return None if name == "clusters" else Y


def outputs(estimator, X, y, weights) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(estimator).fit(X, y, sample_weight=weights)
    whole = ALL[next(name for name, (one, _) in ALL.items() if one is estimator)][1]
    return model.predict_proba(whole) if hasattr(model, "predict_proba") else model.predict(whole)


def some(values, rows):
    return None if values is None else values[rows] if isinstance(values, np.ndarray) else [values[i] for i in rows]


@pytest.mark.parametrize("name", RELATIVE)
def test_only_the_ratios_of_weights_matter_to_discriminative_losses(name):
    estimator, X = RELATIVE[name]
    y = target(name)
    for alike in (2.0, np.full(N, 1e-4)):
        np.testing.assert_array_equal(outputs(estimator, X, y, None), outputs(estimator, X, y, alike))
    expected = outputs(estimator, X, y, WEIGHTS)
    assert (expected != outputs(estimator, X, y, None)).any()
    for power in (-12, 10):
        np.testing.assert_array_equal(outputs(estimator, X, y, WEIGHTS * 2.0**power), expected)


@pytest.mark.parametrize("name", ALL)
def test_a_document_of_weight_zero_counts_nowhere(name):
    estimator, X = ALL[name]
    y, weights = target(name), np.where(np.arange(N) % 5 == 2, 0.0, WEIGHTS)
    rows = np.flatnonzero(weights)
    expected = outputs(estimator, some(X, rows), some(y, rows), weights[rows])
    np.testing.assert_array_equal(outputs(estimator, X, y, weights), expected)


@pytest.mark.parametrize("name", ["hinge", "numbers", "many classes"])
def test_weights_of_a_corpus_on_disk_are_relative_too(name, tmp_path):
    estimator, X = RELATIVE[name]
    models = []
    for i, weights in enumerate((None, np.full(N, 1e-4), WEIGHTS, WEIGHTS / 1024)):
        corpus = sd.write_corpus(tmp_path / str(i), X, Y, dense=name == "numbers", sample_weight=weights)
        models.append(clone(estimator).fit(corpus).predict_proba(X))
    np.testing.assert_array_equal(models[0], models[1])
    np.testing.assert_array_equal(models[2], models[3])
    assert (models[0] != models[2]).any()
