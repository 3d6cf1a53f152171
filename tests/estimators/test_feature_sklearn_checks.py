"""scikit-learn's own checks of the estimators of dense features."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from sdem_dist import BernoulliNB, CategoricalNB, GaussianNB, MixedNB, PoissonNB

ESTIMATORS = [
    GaussianNB(n_epochs=20),
    GaussianNB(loss="nll"),
    GaussianNB(loss="hinge", n_epochs=10),
    GaussianNB(merge="mean", n_epochs=10),
    BernoulliNB(n_epochs=10),
    BernoulliNB(loss="nll"),
    CategoricalNB(n_epochs=10),
    CategoricalNB(loss="nll"),
    PoissonNB(n_epochs=10),
    PoissonNB(loss="nll"),
    MixedNB(n_epochs=10),
]


def expected_failures(estimator) -> dict[str, str]:
    failures = {}
    name = type(estimator).__name__
    if name in ("CategoricalNB", "PoissonNB"):
        failures["check_class_weight_classifiers"] = (
            "the check feeds negative values, which are no counts or categories"
        )
    if name == "CategoricalNB":
        for check in (
            "check_classifiers_one_label_sample_weights",
            "check_sample_weight_equivalence_on_dense_data",
        ):
            failures[check] = "the check feeds fractions, which are no categories"
    return failures


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures, xfail_strict=True)
def test_check(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_the_checks_are_many(estimator):
    names = Counter(getattr(check, "func", check).__name__ for _, check in estimator_checks_generator(estimator))
    assert sum(names.values()) >= 55
    assert set(expected_failures(estimator)) <= set(names)
