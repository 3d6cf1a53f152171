"""scikit-learn's own checks of the topic models."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from sdem_dist import LatentDirichletAllocation, SupervisedLDAClassifier, SupervisedLDARegressor

NEGATIVE = "the check feeds negative values, which are no counts"
FRACTIONS = "the check scores fractions, which are no numbers of words"
SCORING = (
    "check_fit_score_takes_y",
    "check_pipeline_consistency",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
)


def expected_failures(estimator) -> dict[str, str]:
    failures = {}
    if isinstance(estimator, LatentDirichletAllocation):
        failures |= dict.fromkeys(SCORING, FRACTIONS)
    if isinstance(estimator, SupervisedLDAClassifier):
        failures["check_class_weight_classifiers"] = NEGATIVE
    return failures


FAST = {"n_components": 5}
ESTIMATORS = [SupervisedLDAClassifier(**FAST), SupervisedLDARegressor(**FAST), LatentDirichletAllocation(**FAST)]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures, xfail_strict=True)
def test_check(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_the_checks_are_many(estimator):
    names = Counter(getattr(check, "func", check).__name__ for _, check in estimator_checks_generator(estimator))
    assert sum(names.values()) >= 50
    assert set(expected_failures(estimator)) <= set(names)
