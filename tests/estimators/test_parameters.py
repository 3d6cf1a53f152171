"""Parameters: declared once, documented each, checked with a message that helps."""

from __future__ import annotations

import re
import warnings
from inspect import signature

import numpy as np
import pytest
from sklearn.base import clone

import sdem_dist as sd
from sdem_dist.catalogue import ESTIMATORS, estimator_class
from sdem_dist.estimators import parameters
from sdem_dist.estimators.parameters import either, integer, one_of, or_none, real, truth


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_is_documented_once(name):
    cls = estimator_class(name)
    section = cls.__doc__.partition("Parameters\n    ----------\n")[2].partition("\n\n")[0]
    documented = re.findall(r"^ {4}(\w+) :", section, re.MULTILINE)
    assert sorted(documented) == sorted(signature(cls).parameters)
    for parameter, value in cls().get_params().items():
        shown = f'"{value}"' if isinstance(value, str) else value
        assert re.search(rf"^ {{4}}{parameter} : .*, default={re.escape(str(shown))}$", section, re.MULTILINE)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_defaults_pass_their_own_checks_and_survive_cloning(name):
    model = estimator_class(name)()
    parameters.check(model)
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_parameter_that_is_checked_names_itself(name):
    class Odd:
        def __repr__(self):
            return "something odd"

    cls = estimator_class(name)
    refused = []
    for parameter in cls().get_params():
        try:
            parameters.check(cls(**{parameter: Odd()}))
        except ValueError as error:
            assert str(error).startswith(f"{parameter} must be ") and "got something odd" in str(error)
            refused.append(parameter)
    later = {"class_prior", "class_weight", "unlabelled", "random_state", "kinds", "min_categories", "n_components"}
    later.add("ngram_range")
    assert set(cls().get_params()) - set(refused) <= later


@pytest.mark.parametrize(
    ("constraint", "fit", "unfit"),
    [
        (integer(), [1, np.int64(3)], [0, -1, 1.0, True, None, "1"]),
        (integer(0, optional=True), [0, None], [-1, False]),
        (real(), [0, 0.5, np.float32(2)], [-1e-9, np.nan, np.inf, True, "1", None]),
        (real(0, 1, above=True), [1e-9, 1], [0, 1.1]),
        (real(-np.inf), [-5, 0.0], [np.inf, None]),
        (or_none(real(above=True)), [None, 1], [0]),
        (one_of("rows", None), ["rows", None], ["row", 0, True]),
        (either(one_of("auto"), real(0, 1)), ["auto", 0.5], ["other", 2]),
        (truth(), [True, np.True_], [0, 1, None, "yes"]),
    ],
)
def test_constraints(constraint, fit, unfit):
    assert all(constraint.allows(value) for value in fit)
    assert not any(constraint.allows(value) for value in unfit)


def test_the_first_parameter_of_mixtures_and_topic_models_needs_no_name():
    for cls in (sd.MultinomialMixture, sd.LatentDirichletAllocation, sd.EMMixtureClassifier, sd.SupervisedLDARegressor):
        assert cls(7).n_components == 7


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("MultinomialNB", {"step": 0.5}),
        ("MultinomialNB", {"merge": "sum", "n_epochs": 3}),
        ("MultinomialNB", {"calibrate": False}),
        ("ManyClassNB", {"step": 0.5}),
        ("GaussianNB", {"n_epochs": 3, "step_decay": 0.1}),
        ("BernoulliNB", {"merge": "mean"}),
        ("LDAClassifier", {"step": 0.5, "step_decay": 0.1}),
    ],
)
def test_settings_of_steps_that_a_closed_form_has_no_use_for_are_named(name, settings):
    X, y = np.array([[0, 1], [1, 0]] * 10), [0, 1] * 10
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator_class(name)(loss="nll").fit(X, y)
        assert not caught
        estimator_class(name)(loss="nll", **settings).fit(X, y)
    assert all(f"{key}={value!r}" in str(caught[0].message) for key, value in settings.items())
