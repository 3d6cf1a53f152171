"""scikit-learn's own checks of every estimator of the catalogue."""

import warnings
from collections import Counter

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import sdem_dist
import sdem_dist as sd
from sdem_dist.catalogue import ESTIMATORS

NEGATIVE = "the check feeds negative values, which the model has no place for"
FRACTIONS = "the check feeds fractions, which are not categories"
STOCHASTIC = "weights change the order of the steps of a stochastic loss: equal on average, not in bits"
ROUNDING = "a class of one distinct row has no variance but rounding and smoothing, by which its scores of -1e10 differ"
COPIES = "copies of a document are in several folds, which give the temperature"
STARTS = "components start at random documents: weights draw others than copies do"
RELATIVE = "weights of discriminative losses have the mean 1: copies of documents weigh more against the prior"
THRESHOLDS = "labels have thresholds of their own: those of probability .5 are not the ones that are predicted"
NO_CLASSIFIER = "the check takes whatever has predict_proba for a classifier"
WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
SPARSE_WEIGHTS = "check_sample_weight_equivalence_on_sparse_data"
CLASS_WEIGHTS = "check_class_weight_classifiers"

CHECKED = [
    sd.MultinomialNB(),
    sd.MultinomialNB(loss="nll"),
    sd.MultinomialNB(loss="hinge", merge="sum"),
    sd.GaussianNB(n_epochs=20),
    sd.GaussianNB(loss="nll"),
    sd.BernoulliNB(n_epochs=10),
    sd.CategoricalNB(n_epochs=10),
    sd.PoissonNB(n_epochs=10),
    sd.MixedNB(n_epochs=10),
    sd.GaussianRegressor(n_epochs=5),
    sd.MultiplicativeMixtureClassifier(2, n_epochs=30),
    sd.EMMixtureClassifier(2, n_epochs=10),
    sd.SdemMixtureClassifier(2, n_epochs=10),
    sd.MultinomialMixture(2, n_init=2, n_epochs=5),
    sd.KMeans(2),
    sd.GaussianMixture(2, n_init=2, n_epochs=5),
    sd.ExponentialMixture(2, n_init=2, n_epochs=5),
    sd.SupervisedLDAClassifier(5),
    sd.SupervisedLDARegressor(5),
    sd.LatentDirichletAllocation(5),
]
# An estimator that has no line above is checked as it is by default.
OTHERS = set(ESTIMATORS) - {type(estimator).__name__ for estimator in CHECKED}
CHECKED += [getattr(sdem_dist, name)() for name in sorted(OTHERS)]
VARIANTS = [
    sd.ManyClassNB(loss="nll"),
    sd.MultiLabelNB(loss="ncll", merge="sum"),
    sd.LDAClassifier(loss="hinge", merge="sum"),
    sd.LDAClassifier(inference="gibbs"),
    sd.GaussianNB(loss="hinge", n_epochs=10),
    sd.GaussianNB(merge="mean", n_epochs=10),
    sd.BernoulliNB(loss="nll"),
    sd.CategoricalNB(loss="nll"),
    sd.PoissonNB(loss="nll"),
    sd.GaussianRegressor(loss="ncll", n_epochs=5),
    sd.GaussianRegressor(alpha=1.0),
    sd.EMMixtureClassifier(2, components="multinomial", n_epochs=5),
]


def expected_failures(estimator) -> dict[str, str]:
    name, tags = type(estimator).__name__, estimator.__sklearn_tags__().input_tags
    sequential = (
        name in ("MultinomialNB", "ManyClassNB", "MultiLabelNB", "LDAClassifier")
        and estimator.loss != "nll"
        and getattr(estimator, "merge", "mean") == "mean"
    )
    if "Mixture" in name or sequential:
        reason = STOCHASTIC if sequential else STARTS
        failures = {WEIGHTS: reason} | ({SPARSE_WEIGHTS: reason} if tags.sparse else {})
    else:
        failures = {}
    if name == "MultinomialNB" and estimator.merge == "sum":
        failures = dict.fromkeys((WEIGHTS, SPARSE_WEIGHTS), COPIES)
    if estimator._weights_are_relative and name != "SupervisedLDAClassifier":
        failures = dict.fromkeys((WEIGHTS, *((SPARSE_WEIGHTS,) if tags.sparse else ())), RELATIVE) | failures
    if name == "ExponentialMixture":
        failures |= {"check_clustering": NEGATIVE, "check_positive_only_tag_during_fit": NEGATIVE}
    if name == "MultinomialMixture":
        failures |= dict.fromkeys(("check_estimator_sparse_array", "check_estimator_sparse_matrix"), NO_CLASSIFIER)
        failures["check_clustering"] = NEGATIVE
    elif tags.positive_only and estimator.spec.target == "labels":
        failures["check_decision_proba_consistency"] = NEGATIVE
        failures |= {CLASS_WEIGHTS: NEGATIVE} if hasattr(estimator, "class_weight") else {}
    if name == "GaussianNB" and (estimator.loss == "nll" or estimator.merge == "mean"):
        failures[WEIGHTS] = ROUNDING
    if name == "CategoricalNB":
        failures |= {WEIGHTS: FRACTIONS, "check_classifiers_one_label_sample_weights": FRACTIONS}
    if name == "SupervisedLDAClassifier":
        failures["check_classifier_multioutput"] = THRESHOLDS
    return failures


def passes(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures, xfail_strict=True)
def test_check(estimator, check):
    passes(estimator, check)


@pytest.mark.slow
@parametrize_with_checks(VARIANTS, expected_failed_checks=expected_failures, xfail_strict=True)
def test_check_of_variants(estimator, check):
    passes(estimator, check)


@pytest.mark.parametrize("estimator", [*CHECKED, *VARIANTS], ids=str)
def test_the_checks_are_many(estimator):
    names = Counter(getattr(check, "func", check).__name__ for _, check in estimator_checks_generator(estimator))
    assert sum(names.values()) >= (45 if estimator.spec.target != "labels" else 55)
    assert set(expected_failures(estimator)) <= set(names)
