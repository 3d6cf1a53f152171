"""scikit-learn's own checks of the mixtures."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from sdem_dist import MixtureClassifier, MultinomialMixture

ESTIMATORS = [
    MixtureClassifier(2, n_epochs=30),
    MixtureClassifier(2, training="em", n_epochs=10),
    MixtureClassifier(2, training="sdem", n_epochs=10),
    MixtureClassifier(2, training="em", components="multinomial", n_epochs=5),
    MultinomialMixture(2, n_init=2, n_epochs=5),
]


NEGATIVE = "the check feeds negative values, which these models have no place for"
STARTS = "components start at random documents: weights draw others than copies do"
NO_CLASSIFIER = "the check takes whatever has predict_proba for a classifier"


def expected_failures(estimator) -> dict[str, str]:
    tags = estimator.__sklearn_tags__().input_tags
    failures = {"check_sample_weight_equivalence_on_dense_data": STARTS}
    if tags.sparse:
        failures["check_sample_weight_equivalence_on_sparse_data"] = STARTS
    if isinstance(estimator, MultinomialMixture):
        failures |= dict.fromkeys(("check_estimator_sparse_array", "check_estimator_sparse_matrix"), NO_CLASSIFIER)
        failures["check_clustering"] = NEGATIVE
    elif tags.positive_only:
        failures["check_class_weight_classifiers"] = NEGATIVE
    return failures


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures, xfail_strict=True)
def test_check(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_the_checks_are_many(estimator):
    names = Counter(getattr(check, "func", check).__name__ for _, check in estimator_checks_generator(estimator))
    assert sum(names.values()) >= (45 if isinstance(estimator, MultinomialMixture) else 55)
    assert set(expected_failures(estimator)) <= set(names)
