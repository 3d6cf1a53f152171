"""Every estimator of the catalogue is scored by folds, on the metric that it has, as by hand."""

from __future__ import annotations

import numpy as np
import pytest
from cli.commands import ok
from reference.catalogue_cases import CASES, write_corpora
from sklearn.datasets import load_wine
from sklearn.metrics import r2_score

from sdem_dist import CorpusSearchCV, GaussianNB, KMeans, cross_validate, load_model, open_corpus, write_corpus
from sdem_dist.catalogue import ESTIMATORS

SIDE_BY_SIDE = ("MultinomialNB", "MultiLabelNB")
"""See `test_side_by_side` and `test_several_labels`."""
FIRST = {
    (case.estimator, case.corpus): name for name, case in reversed(CASES.items()) if not case.corpus.startswith("half")
}
"""A case of each estimator and kind of documents."""


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora")
    write_corpora(folder)
    return folder


def by_hand(model, train, test):
    """What `evaluate` and its like say of a model of the other folds, by the names of metrics."""
    model.fit(train)
    if hasattr(model, "perplexity"):
        return {"perplexity": model.perplexity(test)}
    found = model.evaluate(test)
    if type(model).__name__ == "GaussianRegressor":
        inside, table = test.mask, test.corpus.read(0, test.n_documents).values
        found["r2"] = r2_score(table[inside, -1], model.predict(table[inside, :-1]))
    names = {"r2": "R2", "perplexity": "perplexity", "distance": "distance"}
    if model.spec.target == "labels":
        names = {"accuracy": "accuracy", "label_log_loss" if model.several_labels else "ncll": "log-loss"}
        if model.several_labels:  # accuracy depends on thresholds, which folds decide
            names.pop("accuracy")
    return {ours: found[own] for own, ours in names.items() if own in found}


@pytest.mark.parametrize("name", [name for name in FIRST.values() if CASES[name].estimator not in SIDE_BY_SIDE])
def test_folds_score_as_evaluate_does(name, corpora):
    case = CASES[name]
    corpus = open_corpus(corpora / case.corpus)
    of = cross_validate(case.made(), corpus, cv=2)
    for fold, (train, test) in enumerate(corpus.folds(2)):
        expected = by_hand(case.made(), train, test)
        assert set(expected) <= set(of.scores) and expected
        for metric, value in expected.items():
            assert of.scores[metric][fold] == pytest.approx(value, rel=1e-6), metric


def test_all_are_there():
    assert {CASES[name].estimator for name in FIRST.values()} == set(ESTIMATORS)


def test_what_k_means_has_is_said(corpora):
    with pytest.raises(ValueError, match="KMeans has no perplexity: choose distance"):
        CorpusSearchCV(KMeans(), metric="perplexity").fit(open_corpus(corpora / "whole"))
    X = np.random.default_rng(0).normal(np.arange(90)[:, None] % 3 * 9.0, 1.0, (90, 2))
    found = CorpusSearchCV(KMeans(1, n_jobs=1), {"n_clusters": [3]}, cv=3).fit(X)
    assert found.metric_ == "distance" and found.best_params_ == {"n_clusters": 3}
    assert 1.0 < -found.best_score_ < 4.0  # two columns of variance 1


@pytest.mark.parametrize(("name", "corpus"), [("KMeans", "whole"), ("GaussianRegressor", "target")])
def test_the_command_tunes_them(name, corpus, corpora, tmp_path):
    space = "n_clusters=2,3" if name == "KMeans" else "loss=ncll,nll"
    more = ["--folds", "2", "--seed", "1", "--quiet", "--estimator", name, "--set", "n_epochs=2"]
    said = ok("tune", str(corpora / corpus), str(tmp_path / "m"), "--space", space, *more)
    assert ("  distance" if name == "KMeans" else "  R2") in said
    assert type(load_model(tmp_path / "m")).__name__ == name


@pytest.mark.filterwarnings("error")
def test_columns_with_names_are_no_reason_to_warn(tmp_path):
    X, y = load_wine(return_X_y=True, as_frame=True)
    corpus = write_corpus(tmp_path / "wine.zarr", X, y, dense=True)
    for given in ((corpus,), (X, y)):
        search = CorpusSearchCV(GaussianNB(), cv=3, n_trials=2, refit=False).fit(*given)
        assert search.best_score_ > -0.2
