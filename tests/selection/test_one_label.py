"""Folds take one label a document: several are refused, in memory and on disk, before figures mean nothing."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from cli.commands import refused

from sdem_dist import (
    CorpusSearchCV,
    MultiLabelNB,
    MultinomialNB,
    SupervisedLDAClassifier,
    cross_validate,
    label_suspects,
    learning_curve,
    write_corpus,
)

TEXTS = ["a late goal", "rates fall", "the club buys shares", "the weather is fine"] * 10
LISTS = [["sport"], ["money"], ["money", "sport"], []] * 10
MATRIX = np.array([[0, 1], [1, 0], [1, 1], [0, 0]] * 10)
SAID = "several labels a document.*one label a document. For several, train MultiLabelNB.*call evaluate on held-out"


@pytest.fixture(scope="module")
def counts():
    return sp.csr_matrix(np.random.default_rng(0).poisson(1.0, (40, 12)))


@pytest.fixture(scope="module")
def sets(counts, tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("sets") / "c.zarr", counts, LISTS)


WAYS = [
    lambda estimator, X, y: cross_validate(estimator, X, y, cv=2),
    lambda estimator, X, y: CorpusSearchCV(estimator, {"alpha": [0.1, 1.0]}, cv=2).fit(X, y),
    lambda estimator, X, y: label_suspects(X, y, estimator=estimator, cv=2),
]


@pytest.mark.parametrize("estimator", [MultiLabelNB(), SupervisedLDAClassifier(2), MultinomialNB()])
@pytest.mark.parametrize("way", WAYS)
def test_several_labels_are_refused(way, estimator, counts, sets):
    for X, y in [
        (TEXTS, LISTS),
        (TEXTS, MATRIX),
        (counts, LISTS),
        (counts, [set(labels) for labels in LISTS]),
        (counts, MATRIX),
        (counts, sp.csr_matrix(MATRIX)),
        (sets, None),
    ]:
        with pytest.raises(ValueError, match=SAID):
            way(estimator, X, y)


def test_so_are_held_out_documents_and_curves(counts, sets):
    one = ["sport", "money"] * 20
    for held_out in [(counts, LISTS), (counts, MATRIX), sets]:
        with pytest.raises(ValueError, match=SAID):
            CorpusSearchCV(MultiLabelNB(), {}, cv=held_out).fit(counts, one)
    with pytest.raises(ValueError, match=SAID):
        learning_curve(MultiLabelNB(), sets)


def test_one_label_a_document_is_scored_as_by_evaluate(counts):
    y = np.array(["sport", "money"] * 20)
    model = MultiLabelNB(n_epochs=2, random_state=0)
    found = cross_validate(model, counts, y, cv=2)
    for fold in (0, 1):
        fitted = MultiLabelNB(n_epochs=2, random_state=0).fit(counts[found.folds != fold], y[found.folds != fold])
        inside = found.folds == fold
        assert found.scores["accuracy"][fold] == fitted.score(counts[inside], y[inside])


def test_scikit_learn_takes_an_indicator_matrix(counts):
    from sklearn.model_selection import cross_val_score

    model = MultiLabelNB(n_epochs=2, random_state=0)
    scores = cross_val_score(model, counts, MATRIX, cv=2, scoring="f1_micro")
    assert scores.shape == (2,) and np.isfinite(scores).all()


@pytest.mark.parametrize("command", ["tune", "suspects"])
@pytest.mark.parametrize("estimator", ["MultiLabelNB", "MultinomialNB"])
def test_commands_refuse_them_too(command, estimator, sets, tmp_path):
    model = [str(tmp_path / "m")] if command == "tune" else []
    said = refused(command, str(sets.path), *model, "--estimator", estimator)
    assert "several labels a document" in said and "sdem evaluate" in said
    source = tmp_path / "posts.tsv"
    source.write_text("".join(f"{','.join(labels)}\t{text}\n" for labels, text in zip(LISTS, TEXTS, strict=True)))
    said = refused(command, str(source), *model, "--estimator", estimator, "--label-separator", ",", code=2)
    assert "--label-separator is for several labels" in said and "sdem evaluate" in said
    assert not (tmp_path / "m").exists()
