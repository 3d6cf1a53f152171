"""scikit-learn's own checks of estimators."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from sdem_dist import LDAClassifier, MultinomialNB

NEGATIVE = "the check feeds negative values, which are no counts"
STOCHASTIC = "weights change the order of the steps of a stochastic loss: equal on average, not in bits"


def expected_failures(estimator) -> dict[str, str]:
    failures = {"check_class_weight_classifiers": NEGATIVE}
    if estimator.loss != "nll" and estimator.merge == "mean":
        failures["check_sample_weight_equivalence_on_dense_data"] = STOCHASTIC
        failures["check_sample_weight_equivalence_on_sparse_data"] = STOCHASTIC
    return failures


ESTIMATORS = [
    MultinomialNB(),
    MultinomialNB(loss="nll"),
    MultinomialNB(loss="hinge", merge="sum"),
    LDAClassifier(),
    LDAClassifier(loss="hinge", merge="sum"),
    LDAClassifier(inference="gibbs"),
]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures, xfail_strict=True)
def test_check(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_the_checks_are_many(estimator):
    names = Counter(getattr(check, "func", check).__name__ for _, check in estimator_checks_generator(estimator))
    assert sum(names.values()) >= 60
    assert set(expected_failures(estimator)) <= set(names)
