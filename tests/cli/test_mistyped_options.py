"""Options that a command does not have: the message says what was meant."""

from __future__ import annotations

import pytest
from commands import refused


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("train --lerning-rate", "Did you mean --set step=VALUE?"),
        ("train --step", "Did you mean --set step=VALUE?"),
        ("train --n-epochs", "Did you mean --epochs?"),
        ("tune --n-epochs", "Did you mean --set n_epochs=VALUE?"),
        ("train --overwrit", "Did you mean --overwrite?"),
        ("predict --unlabelled", "says how labels are read, and sdem predict reads none: leave it out"),
        ("transform --label", "says how labels are read, and sdem transform reads none: leave it out"),
        ("inspect --no-chek", "Did you mean --no-check?"),
    ],
)
def test_an_unknown_option_is_answered_by_what_was_meant(typed, meant):
    command, option = typed.split()
    said = refused(command, "a", "b", option, "3", code=2)
    assert f"No such option '{option}'." in said and meant in said


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--estimator LatentDirichletAllocation --components", "--set n_components=VALUE"),
        ("--estimator=SdemMixtureClassifier --components", "--set components=VALUE"),
        ("--estimator KMeans --lr", "No such option '--lr'."),
    ],
)
def test_suggestions_are_parameters_of_the_estimator_that_is_named(typed, meant):
    said = refused("train", "a", "b", *typed.split(), "3", code=2)
    assert meant in said and ("Did you mean" in said) == ("--set" in meant)


def test_an_option_that_is_like_no_other_has_no_suggestion():
    assert refused("train", "a", "b", "--zzzzzz", code=2).endswith("No such option '--zzzzzz'.")
    assert refused("demo", "--nosuch", code=2).endswith("No such option '--nosuch'.")
