"""The examples in the docstrings of public names are run, and no estimator is without one."""

import doctest
import warnings
from importlib import import_module

import pytest

import sdem_dist
from sdem_dist.catalogue import ESTIMATORS, PUBLIC

TABLES_OF_PANDAS = {"MixedNB"}


def examples_of(name: str) -> list[doctest.DocTest]:
    thing = getattr(sdem_dist, name)
    found = doctest.DocTestFinder(recurse=False).find(thing, name, module=import_module(PUBLIC[name]), globs={})
    return [test for test in found if test.examples]


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_examples_say_what_happens(name):
    if name in TABLES_OF_PANDAS:
        pytest.importorskip("pandas")
    said: list[str] = []
    for test in examples_of(name):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
        assert not failed, "".join(said)


@pytest.mark.parametrize("name", [*ESTIMATORS, "ingest", "load_model", "cluster_scores"])
def test_every_estimator_has_an_example(name):
    assert examples_of(name)
