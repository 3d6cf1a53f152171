"""Parameters: declared once, documented each, and refused by name where they make no sense, alone or together."""

import re
import warnings
from inspect import get_annotations, signature

import numpy as np
import pytest
from reference.random_documents import random_counts
from sklearn.base import clone
from sklearn.datasets import load_iris

import sdem_dist
import sdem_dist as sd
from sdem_dist.catalogue import ESTIMATORS
from sdem_dist.estimators import parameters
from sdem_dist.families import GaussianFull

COUNTS, Y = random_counts(240, 30, 3, seed=2)
TABLE = load_iris().data
NAN, INF = np.nan, np.inf
# Of an estimator, for each parameter: values that it does not take.
VALUES = {
    "MultinomialNB": {"loss": ["log", ["ncll"], None], "merge": ["max"], "n_epochs": [0, None, 2.5, "some"],
        "n_lanes": [0, -1], "rounds_per_epoch": [0], "batch_size": [0], "patience": [0], "n_jobs": [0, "all"],
        "steps": ["long", None], "step": [0, -0.1, NAN, INF, "x", "auto"], "weighting": ["idf", None], "norm": [0, -1.0,
        NAN, "l2"], "min_df": [0, 0.1], "ngram_range": [2, (2, 1), (0, 1), (1, 2), (1, 1.5)],
        "validation_fraction": [-0.1, 0.6, None], "calibrate": [None, "yes"], "evaluate_every": [-1, 1.5, "x"],
        "alpha": ["jeffreys", -1, INF, NAN, None, [1.0], 0, 1e300], "class_weight": ["even", [1, 2, 3], {"z": 1.0},
        {"a": -1.0}, {"a": NAN}], "random_state": [-1, 2**64, "seed"]},
    "GaussianNB": {"loss": ["huber"], "merge": ["max"], "n_epochs": [0], "var_smoothing": [-1.0], "prior": ["much"]},
    "BernoulliNB": {"alpha": [None], "binarize": [NAN, INF, "much"]},
    "MixedNB": {"var_smoothing": [-1.0], "prior": [-1.0], "kinds": [{1: "gauss"}, {7: "poisson"},
        {0: GaussianFull(2)}]},
    "GaussianRegressor": {"loss": ["hinge"], "alpha": [-1.0, "much"], "evaluate_every": [-1]},
    "MultiplicativeMixtureClassifier": {"n_components": [0, [1, 2], None, {"a": 1, "bb": 2}], "n_epochs": [0]},
    "EMMixtureClassifier": {"components": ["magic"]},
    "SdemMixtureClassifier": {"alpha": [0.0]},
    "MultinomialMixture": {"n_components": [0, 241], "em": ["magic"], "annealing": [0.5],
        "alpha": [-1.0, "much"], "weight_alpha": [-1.0], "init_documents": [5], "n_init": [0]},
    "KMeans": {"n_clusters": [241], "init_documents": [3], "metric": ["manhattan"]},
    "LDAClassifier": {"n_components": [0], "inference": ["vb"], "topic_word_prior": [0.0], "doc_topic_prior": [-1.0],
        "loss": ["logistic"]},
    "SupervisedLDAClassifier": {"alpha": [0.0], "beta": [0.9], "merge": ["max"], "inference_step": [0],
        "n_layers": [None], "log_counts": ["no"], "inference": ["newton"], "average_from": [-1]},
}  # fmt: skip
PRIORS = [[0.5, 0.5], [0.5, 0.7, -0.2], [0, 0, 0], [NAN, 0.5, 0.5], [0.5, 0.5, 0.5]]
# Settings that mean nothing, or contradict each other, and a word of what is said.
TOGETHER = [
    ("MultinomialNB", {"merge": "sum", "rounds_per_epoch": 3}, "rounds_per_epoch needs merge='mean'"),
    *((name, {key: prior}, "priors|class_prior") for name, key in (("MultinomialNB", "class_prior"),
     ("GaussianNB", "priors")) for prior in PRIORS),
    ("BernoulliNB", {"class_prior": PRIORS[-1]}, "priors should be nonnegative and sum to 1"),
    *((name, {"steps": "paper", "step": 0.5}, "step needs steps='margin'") for name in ("MultinomialNB",
     "LDAClassifier")),
    ("MultinomialNB", {"loss": "nll", "steps": "paper"}, "neither unlabelled documents nor loss='nll'"),
    *((name, {"loss": "nll", "step": "paper", "merge": "mean", "n_lanes": 1}, "takes no steps") for name in ("GaussianNB",
     "BernoulliNB", "CategoricalNB", "PoissonNB")),
    ("GaussianNB", {"loss": "nll", "batch_size": 10}, "takes no steps"),
    ("GaussianNB", {"step": "paper"}, "merge='mean'"),
    ("EMMixtureClassifier", {"em_step": 0.5}, "em_step needs em='generalised'"),
    ("EMMixtureClassifier", {"offset": 2.0}, "offset needs components='exponential'"),
    ("EMMixtureClassifier", {"em": "generalised", "em_step": 1.5}, "em_step must"),
    ("MultiplicativeMixtureClassifier", {"patience": 2}, "needs validation"),
    ("MultinomialMixture", {"em": "hard", "annealing": 2.0}, "annealing has no effect"),
    ("MultinomialMixture", {"weight_alpha": 0.0, "em": "variational"}, "weight_alpha must be positive"),
    *(("Mixture", {"components": "mixed", "kinds": kinds, "em": "variational"}, "or families with the method posterior")
      for kinds in ({0: "poisson"}, {(0, 1): GaussianFull(2)})),
    ("MultinomialMixture", {"batch_size": 10}, "batch_size needs em='online'"),
    ("LDAClassifier", {"inference": "gibbs", "burn_in": 10}, "burn_in must be less than"),
    ("LDAClassifier", {"burn_in": 2}, "burn_in needs"),
    ("LDAClassifier", {"occurrences": "each"}, "needs inference='gibbs'"),
    ("LDAClassifier", {"batch_size": 3}, "batch_size needs merge='sum'"),
    ("LDAClassifier", {"merge": "sum", "rounds_per_epoch": 3}, "rounds_per_epoch needs merge='mean'"),
    ("SupervisedLDAClassifier", {"class_weight": dict.fromkeys("abc", 0)}, "gives all documents a weight of 0"),
]  # fmt: skip
REFUSED = [
    *((name, {key: value}, "random_state|seed" if key == "random_state" else key)
      for name, parameters in VALUES.items() for key, values in parameters.items() for value in values),
    *TOGETHER,
]  # fmt: skip


each_estimator = pytest.mark.parametrize("name", ESTIMATORS)


@each_estimator
def test_every_parameter_is_documented_once(name):
    cls = getattr(sdem_dist, name)
    section = cls.__doc__.partition("Parameters\n    ----------\n")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^ {4}(\w+) :", section, re.MULTILINE)) == sorted(signature(cls).parameters)
    for parameter, value in cls().get_params().items():
        shown = f'"{value}"' if isinstance(value, str) else value
        assert re.search(rf"^ {{4}}{parameter} : .*, default={re.escape(str(shown))}$", section, re.MULTILINE)


@each_estimator
def test_defaults_pass_their_own_checks_and_survive_cloning(name):
    model = (cls := getattr(sdem_dist, name))()
    parameters.check(model)
    for parameter, value in model.get_params().items():  # of the nearest base: no other base's comes before
        nearest = next(base for base in cls.__mro__ if parameter in get_annotations(base))
        assert parameter not in vars(nearest) or value is vars(nearest)[parameter]
    assert clone(model).get_params() == model.get_params()


@each_estimator
def test_a_parameter_that_is_checked_names_itself(name):
    class Odd:
        def __repr__(self):
            return "something odd"

    cls = getattr(sdem_dist, name)
    refused = []
    for parameter in cls().get_params():
        try:
            parameters.check(cls(**{parameter: Odd()}))
        except ValueError as error:
            assert str(error).startswith(f"{parameter} must be ") and "got something odd" in str(error)
            refused.append(parameter)
    later = {"class_prior", "class_weight", "unlabelled", "random_state", "kinds", "min_categories", "n_components"}
    later |= {"ngram_range", "priors"}
    assert set(cls().get_params()) - set(refused) <= later


@pytest.mark.parametrize(("name", "settings", "word"), REFUSED, ids=str)
def test_settings_that_make_no_sense_are_named(name, settings, word):
    model = getattr(sd, name)(**settings)
    X = COUNTS if model.spec.layout == "sparse" or name == "KMeans" else TABLE
    labels = np.array(["a", "b", "c"])[Y if X is COUNTS else np.arange(150) // 50]
    with pytest.raises(ValueError, match=word):
        model.fit(X, {"labels": labels, "numbers": TABLE[:, 0], "nothing": None}[model.spec.target])


def test_the_first_parameter_of_mixtures_and_topic_models_needs_no_name():
    for cls in (sd.MultinomialMixture, sd.LatentDirichletAllocation, sd.EMMixtureClassifier, sd.SupervisedLDARegressor):
        assert cls(7).n_components == 7


@pytest.mark.parametrize(("name", "settings"), [
    ("MultinomialNB", {"step": 0.5}),
    ("MultinomialNB", {"merge": "sum", "n_epochs": 3}),
    ("MultinomialNB", {"calibrate": False}),
    ("ManyClassNB", {"step": 0.5}),
    ("GaussianNB", {"n_epochs": 3, "step_decay": 0.1}),
    ("BernoulliNB", {"merge": "mean"}),
    ("LDAClassifier", {"step": 0.5, "step_decay": 0.1}),
])  # fmt: skip
def test_settings_of_steps_that_a_closed_form_has_no_use_for_are_named(name, settings):
    X, y = np.array([[0, 1], [1, 0]] * 10), [0, 1] * 10
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(sdem_dist, name)(loss="nll").fit(X, y)
        assert not caught
        getattr(sdem_dist, name)(loss="nll", **settings).fit(X, y)
    assert all(f"{key}={value!r}" in str(caught[0].message) for key, value in settings.items())
