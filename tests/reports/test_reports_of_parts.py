"""Reports of a subset or a fold are of its documents alone, whatever a model predicts."""

from __future__ import annotations

import numpy as np
import pytest

from sdem_dist import (
    GaussianNB,
    GaussianRegressor,
    LatentDirichletAllocation,
    MultiLabelNB,
    MultinomialMixture,
    MultinomialNB,
    SupervisedLDARegressor,
    label_suspects,
    write_corpus,
)
from sdem_dist.inspection.evaluation_set import EvaluationSet, mistakes

RNG = np.random.default_rng(0)
X, Y = RNG.poisson(1.0, (200, 6)), RNG.integers(0, 2, 200)
CHOSEN = np.arange(200) % 3 == 1
SETS = [["a"] if label else ["a", "b"] for label in Y]
CASES = {
    "classes": (MultinomialNB(), {"y": Y}),
    "table": (GaussianNB(), {"y": Y, "dense": True}),
    "labels": (MultiLabelNB(n_epochs=1), {"y": SETS}),
    "numbers": (SupervisedLDARegressor(n_components=2, n_epochs=1), {"targets": RNG.normal(size=200)}),
    "clusters": (MultinomialMixture(2, n_epochs=1), {"y": Y}),
    "topics": (LatentDirichletAllocation(2, n_epochs=1), {"y": Y}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_report_of_a_part_is_of_its_documents(name, tmp_path):
    estimator, given = CASES[name]
    corpus = write_corpus(tmp_path / "c.zarr", X.astype(float) if "dense" in given else X, **given)
    model = estimator.fit(corpus)
    part = corpus.subset(CHOSEN)
    report = model.report(part)
    assert report.n_documents == CHOSEN.sum() and model.report(corpus).n_documents == 200
    if hasattr(report, "accuracy"):
        assert report.accuracy == pytest.approx(model.evaluate(part)["accuracy"])
    assert set(report.positions.tolist()) == set(np.flatnonzero(part.mask).tolist())
    if name in ("classes", "labels", "numbers"):
        listed = [document for block in mistakes(model, report, EvaluationSet(part)) for document in block["id"]]
        assert listed and set(listed) <= set(part.ids_at(np.flatnonzero(part.mask)))
    if name == "numbers":
        assert report.figures["r2"] == pytest.approx(model.evaluate(part)["r2"])


def test_a_table_of_numbers(tmp_path):
    table = np.column_stack([X, X[:, 0] + RNG.normal(size=200)])
    corpus = write_corpus(tmp_path / "c.zarr", table, dense=True)
    model = GaussianRegressor().fit(corpus)
    part = corpus.subset(CHOSEN)
    assert model.report(part).n_documents == CHOSEN.sum()
    means, deviations = model.predict(part, return_std=True)
    assert len(means) == len(deviations) == CHOSEN.sum()


def test_densities_of_a_part(tmp_path):
    corpus = write_corpus(tmp_path / "c.zarr", X, Y)
    part = corpus.subset(CHOSEN)
    for model in (MultinomialMixture(2, n_epochs=1), LatentDirichletAllocation(2, n_epochs=1)):
        of_all = model.fit(corpus).score_samples(corpus)
        np.testing.assert_array_equal(model.score_samples(part), of_all[part.mask])


def test_the_perplexity_of_a_fold_is_of_its_documents(tmp_path):
    corpus = write_corpus(tmp_path / "c.zarr", X, Y)
    model = LatentDirichletAllocation(2, n_epochs=1).fit(corpus)
    of_parts = []
    for part in (corpus.subset(CHOSEN), corpus.subset(~CHOSEN)):
        rows = corpus.read(0, 200).to_csr()[part.mask]
        assert model.score(part) == pytest.approx(model.score(rows))
        assert model.perplexity(part) == pytest.approx(model.perplexity(rows))
        of_parts.append(model.score(part))
    assert min(of_parts) < model.score(corpus) < max(of_parts)


def test_suspects_of_a_part_are_in_it(tmp_path):
    part = write_corpus(tmp_path / "c.zarr", X, Y).subset(CHOSEN)
    found = label_suspects(part, estimator=MultinomialNB(n_epochs=1), cv=3, n=None)
    assert found.n_documents == CHOSEN.sum() and part.mask[found.positions].all()
