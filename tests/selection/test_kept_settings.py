"""Searches that fit one setting after the other go on with results of their own alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats

from sdem_dist import (
    CorpusSearchCV,
    ExponentialMixture,
    GaussianMixture,
    GaussianRegressor,
    LDAClassifier,
    ModelError,
    MultinomialNB,
    SupervisedLDAClassifier,
)

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, 120)
X = RNG.poisson(1.0 + 2.0 * np.eye(2)[Y].repeat(3, axis=1)).astype(float)


def searched(estimator, space, path, *documents, resume=False, **more):
    search = CorpusSearchCV(estimator, space, n_jobs=1, refit=False, **more)
    return search.fit(*(documents or (X, Y)), checkpoint=path, resume=resume)


def test_settings_that_are_drawn_from_elsewhere_are_refused(tmp_path):
    def drawn(low, resume):
        space = {"step": scipy.stats.uniform(low, 0.01)}
        return searched(
            LDAClassifier(n_components=2, n_epochs=1), space, tmp_path / "run", cv=2, n_trials=3, resume=resume
        )

    first, again = drawn(0.01, False), drawn(0.01, True)
    np.testing.assert_array_equal(again.cv_results_["mean_test_score"], first.cv_results_["mean_test_score"])
    with pytest.raises(ModelError, match=r"setting 1\.step: 5\.\d+, before 0\.01"):
        drawn(5.0, True)


@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (LDAClassifier(n_components=2, n_epochs=1), Y),
        (SupervisedLDAClassifier(n_components=2, n_epochs=1), [["a", "b"][: 1 + label] for label in Y]),
        (GaussianRegressor(n_epochs=1), X[:, 0]),
        (GaussianMixture(n_components=2, n_epochs=1), None),
    ],
    ids=["classes", "labels", "numbers", "clusters"],
)
def test_other_documents_set_apart_are_refused(estimator, y, tmp_path):
    def go(n, resume):
        apart = (X[:n], None if y is None else y[:n])
        return searched(estimator, {}, tmp_path / "run", X, y, cv=apart, resume=resume)

    first = go(40, False)
    assert go(40, True).best_score_ == first.best_score_
    with pytest.raises(ModelError, match="validation: "):
        go(50, True)


def test_another_estimator_is_refused(tmp_path):
    space = {"n_components": [1, 2]}
    searched(GaussianMixture(n_epochs=1), space, tmp_path / "run", X + 0.1, cv=2)
    named = r"\(estimator: 'ExponentialMixture', before 'GaussianMixture'\)"  # its parameters are others, too
    with pytest.raises(ModelError, match=named):
        searched(ExponentialMixture(n_epochs=2), space, tmp_path / "run", X + 0.1, cv=2, resume=True)


@pytest.mark.parametrize(
    ("estimator", "stands_for"), [(MultinomialNB(n_epochs=1), True), (MultinomialNB(n_epochs=1, unlabelled=9), False)]
)
def test_what_auto_stands_for_may_be_said(estimator, stands_for, tmp_path):
    first = searched(estimator, {"step": [0.1]}, tmp_path / "run", cv=2)
    for halving in (stands_for, "auto"):
        again = searched(estimator, {"step": [0.1]}, tmp_path / "run", cv=2, halving=halving, resume=True)
        assert again.best_score_ == first.best_score_
    with pytest.raises(ModelError, match=rf"halving: {not stands_for}, before {stands_for}"):
        searched(estimator, {"step": [0.1]}, tmp_path / "run", cv=2, halving=not stands_for, resume=True)


@pytest.mark.parametrize("several", [False, True], ids=["classes", "labels"])
def test_each_setting_is_kept_in_a_small_file_of_its_own(tmp_path, several):
    n, rng = 3000, np.random.default_rng(1)
    codes = rng.integers(0, 5, n)
    table = rng.poisson(0.2 + 3.0 * np.eye(5)[codes]).astype(float)
    y = [[f"label {code}"] for code in codes] if several else codes
    estimator = (SupervisedLDAClassifier if several else LDAClassifier)(n_components=2, n_epochs=1)
    space = {"n_components": [1, 3, 4]}
    sizes = []

    def see(event):
        sizes.append({path.name: path.stat().st_size for path in (tmp_path / "run").iterdir()})

    def go(**more):
        return searched(estimator, space, tmp_path / "run", table, y, cv=2, n_trials=None, **more)

    first = go(callbacks=[see])
    assert [len(of) for of in sizes] == [1, 2, 3, 4] and all(
        a.items() <= b.items() for a, b in itertools.pairwise(sizes)
    )
    later = [size for name, size in sizes[-1].items() if name != "search.sdem"]
    assert max(later) < 4 * n * 5 + 20_000  # a score of each class in single precision, and what was asked
    (tmp_path / "run" / "search-2.sdem").unlink()  # one whose training was killed
    before = (tmp_path / "run" / "search-3.sdem").stat().st_mtime_ns
    again = go(resume=True)
    assert (tmp_path / "run" / "search-2.sdem").exists()
    assert (tmp_path / "run" / "search-3.sdem").stat().st_mtime_ns == before
    for a, b in zip(first.trials_, again.trials_, strict=True):
        assert a.found is not None and b.found is not None
        for ours, theirs in zip(a.found, b.found, strict=True):
            assert np.array_equal(ours, theirs) if isinstance(ours, np.ndarray) else ours == theirs
    np.testing.assert_array_equal(again.cv_results_["mean_test_score"], first.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(again.oof_proba_, first.oof_proba_)
