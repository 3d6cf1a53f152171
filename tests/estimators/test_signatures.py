"""Estimators that share parameters with their base name and document them all."""

from __future__ import annotations

import re
from inspect import signature

import pytest

import sdem_dist as sd


@pytest.mark.parametrize(
    "name",
    [
        "BernoulliNB", "CategoricalNB", "GaussianNB", "LatentDirichletAllocation", "MixedNB", "PoissonNB",
        "SupervisedLDAClassifier", "SupervisedLDARegressor",
    ],
)  # fmt: skip
def test_every_parameter_is_documented_once(name):
    cls = getattr(sd, name)
    assert "**shared" not in cls.__doc__
    section = cls.__doc__.partition("Parameters\n    ----------\n")[2].partition("\n\n")[0]
    documented = [n for line in re.findall(r"^ {4}(\w[\w, ]*) :", section, re.MULTILINE) for n in line.split(", ")]
    assert sorted(documented) == sorted(signature(cls).parameters)


def test_own_defaults_are_documented():
    assert 'merge : {"mean", "sum"}, default="sum"' in sd.LatentDirichletAllocation.__doc__
    assert 'merge : {"mean", "sum"}, default="mean"' in sd.SupervisedLDARegressor.__doc__
