"""Searches: scikit-learn's attributes, the same winner anywhere and after a stop, other estimators, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from fitting.test_loss_by_overlap import documents as overlapping
from scipy.stats import loguniform
from selection.conftest import made, same
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.svm import LinearSVC

from sdem_dist import (
    CorpusSearchCV,
    GaussianNB,
    LatentDirichletAllocation,
    LDAClassifier,
    ModelError,
    MultiLabelNB,
    MultinomialMixture,
    MultinomialNB,
    SupervisedLDARegressor,
    open_corpus,
    write_corpus,
)
from sdem_dist.calibration import best_temperature, tempered_losses
from sdem_dist.catalogue import ESTIMATORS, estimator_class
from sdem_dist.estimators import parameters
from sdem_dist.inputs.source import source_of
from sdem_dist.selection.metrics import GREATER, measured
from sdem_dist.selection.predicted import Predicted
from sdem_dist.selection.run import LAST
from sdem_dist.selection.spaces import default_space, settings
from sdem_dist.selection.summary import lines

SPACE = {"loss": ["hinge", "ncll"], "step": [0.1, 0.5], "norm": [5.0, 10.0]}


def search(corpus, **more):
    return CorpusSearchCV(MultinomialNB(), SPACE, **{"cv": 3, "n_jobs": 1, **more}).fit(corpus)


@pytest.fixture(scope="module")
def found(corpus):
    return search(corpus)


def test_attributes_of_scikit_learn(corpus, found):
    results = found.cv_results_
    n = len(results["params"])
    assert n == 9 and results["params"][0] == {}
    assert {len(column) for column in results.values()} == {n}
    assert results["rank_test_score"][found.best_index_] == 1
    assert results["mean_test_score"][found.best_index_] == found.best_score_ == results["mean_test_score"].max()
    splits = np.stack([results[f"split{i}_test_score"] for i in range(3)])
    assert results["mean_test_score"] == pytest.approx(splits.mean(axis=0))
    assert found.n_splits_ == 3
    assert results["param_norm"].mask[0] and results["param_norm"][1] in (5.0, 10.0)
    assert {name for name in found.best_params_ if name != "n_epochs"} <= set(SPACE)
    whole = corpus.read(0, corpus.n_documents)
    assert found.predict(whole.to_csr()).shape == (400,)
    pd = pytest.importorskip("pandas")
    assert len(pd.DataFrame(results)) == n


def test_out_of_fold_predictions_are_those_of_models_without_the_fold(corpus, found):
    chosen = {**found.best_params_, "validation_fraction": 0.0, "calibrate": False}
    whole = corpus.read(0, corpus.n_documents)
    for fold in range(3):
        alone = MultinomialNB(**chosen).fit(corpus.folds(3).train(fold))
        inside = found.oof_folds_ == fold
        log_proba = alone.predict_log_proba(whole.to_csr()[inside]) / found.temperature_
        expected = np.exp(log_proba - np.logaddexp.reduce(log_proba, axis=1, keepdims=True))
        assert found.oof_proba_[inside] == pytest.approx(expected, abs=1e-4)
    losses = -np.log(found.oof_proba_[np.arange(400), whole.labels])
    assert found.best_score_ == pytest.approx(
        -np.mean([losses[found.oof_folds_ == f].mean() for f in range(3)]), rel=1e-6
    )


def test_the_winner_is_trained_on_all_with_the_temperature_of_the_folds(corpus, found):
    alone = MultinomialNB(**{**found.best_params_, "validation_fraction": 0.0}).fit(corpus)
    assert np.array_equal(found.best_estimator_.state_.words, alone.state_.words)
    assert found.best_estimator_.temperature_ == found.temperature_ != 1.0


def test_the_same_winner_on_threads_and_on_a_cluster(corpus, client, found):
    same(search(corpus, n_jobs=2), found)
    on_cluster = CorpusSearchCV(MultinomialNB(), SPACE, cv=3).fit(corpus, client=client)
    same(on_cluster, found)


def test_a_search_that_was_stopped_goes_on(corpus, tmp_path, found):
    class Stop(Exception):
        pass

    def stop(event):
        if event.epoch == 2 and len(stopped) == 0:
            stopped.append(event)
            raise Stop

    stopped = []
    for resume in (False, True, True):
        try:
            again = CorpusSearchCV(MultinomialNB(), SPACE, cv=3, n_jobs=2, callbacks=[stop]).fit(
                corpus, checkpoint=tmp_path / "run", resume=resume
            )
        except Stop:
            continue
        same(again, found)
    assert stopped
    with pytest.raises(ModelError, match="earlier search"):
        CorpusSearchCV(MultinomialNB(), SPACE, cv=3).fit(corpus, checkpoint=tmp_path / "run")
    with pytest.raises(ModelError, match="other settings"):
        CorpusSearchCV(MultinomialNB(), SPACE, cv=4).fit(corpus, checkpoint=tmp_path / "run", resume=True)


def test_halving_lets_go_and_without_it_all_run_to_their_end(corpus, found):
    assert any(trial.dropped for trial in found.trials_)
    whole = search(corpus, halving=False)
    assert not any(trial.dropped for trial in whole.trials_)
    assert whole.best_score_ >= found.best_score_
    for a, b in zip(found.trials_, whole.trials_, strict=True):
        assert a.epochs == b.epochs[: len(a.epochs)]


def test_a_grid_in_memory_chooses_as_scikit_learn(documents):
    """Of counting, whose models are exact: the scores of scikit-learn's search over the same folds."""
    X, y, _ = documents
    ours = CorpusSearchCV(
        MultinomialNB(loss="nll", calibrate=False), {"alpha": [0.01, 0.5, 20.0]}, cv=4, metric="accuracy"
    )
    ours.fit(X, y)
    splits = [(np.flatnonzero(ours.oof_folds_ != f), np.flatnonzero(ours.oof_folds_ == f)) for f in range(4)]
    theirs = GridSearchCV(MultinomialNB(loss="nll"), {"alpha": [1.0, 0.01, 0.5, 20.0]}, cv=splits).fit(X, y)
    assert ours.cv_results_["mean_test_score"] == pytest.approx(theirs.cv_results_["mean_test_score"])
    assert (ours.oof_proba_.argmax(axis=1) == np.searchsorted(ours.classes_, y)).mean() > 0.6


def test_texts(documents):
    X, y, _ = documents
    texts = [" ".join(f"w{word}" for word in row.indices for _ in range(2)) for row in X]
    found = CorpusSearchCV(MultinomialNB(), {"min_df": [1, 3]}, cv=3, n_jobs=1).fit(texts, y)
    assert set(found.predict(texts[:20])) <= set("abc")


def test_documents_that_were_set_apart(corpus, tmp_path):
    X, y, _ = made(200, seed=5)
    write_corpus(tmp_path / "held-out.zarr", X, y)
    held_out = open_corpus(tmp_path / "held-out.zarr")
    found = CorpusSearchCV(MultinomialNB(), SPACE, cv=held_out, n_jobs=1).fit(corpus)
    assert found.n_splits_ == 1 and len(found.oof_proba_) == 200
    alone = MultinomialNB(**{**found.best_params_, "validation_fraction": 0.0}).fit(corpus)
    expected = alone.evaluate(held_out)
    assert found.cv_results_["mean_accuracy"][found.best_index_] == pytest.approx(expected["accuracy"])
    log_p, labels = alone.predict_log_proba(X), np.searchsorted(alone.classes_, y)
    expected_loss = best_temperature(tempered_losses(log_p, labels, np.ones(200)) / 200)[1]
    assert -found.best_score_ == pytest.approx(expected_loss, rel=1e-2)


@pytest.mark.parametrize("metric", ["accuracy", "macro-F1", "perplexity", lambda y, p: -np.abs(p.max(axis=1)).mean()])
def test_metrics(corpus, metric):
    found = search(corpus, metric=metric, n_trials=3, refit=False)
    assert np.isfinite(found.best_score_) and not hasattr(found, "best_estimator_")
    with pytest.raises(AttributeError, match="refit"):
        found.predict([[0]])


def test_what_to_train_is_said_without_training_it(corpus, found):
    assert search(corpus, refit=False).best_params_ == found.best_params_
    assert found.best_params_["n_epochs"] == found.best_estimator_.n_epochs


def test_measures_are_those_of_scikit_learn():
    from sklearn.metrics import accuracy_score, f1_score, log_loss

    rng = np.random.default_rng(3)
    p, y = rng.dirichlet(np.ones(4), 50), rng.integers(4, size=50)
    weights = rng.random(50)
    of = measured(Predicted(np.log(p), y, weights, np.zeros(50)), 1.0, ("log-loss", "accuracy", "macro-F1"))
    assert of["log-loss"] == pytest.approx([log_loss(y, p, sample_weight=weights)])
    assert of["accuracy"] == pytest.approx([accuracy_score(y, p.argmax(axis=1), sample_weight=weights)])
    assert of["macro-F1"] == pytest.approx([f1_score(y, p.argmax(axis=1), average="macro", sample_weight=weights)])
    assert set(GREATER) > set(of)


def test_distributions_and_draws(corpus):
    space = {"step": loguniform(0.05, 2.0), "loss": ["hinge", "ncll"]}
    found = search(corpus, n_trials=5)
    assert len(found.trials_) == 5
    source = source_of(MultinomialNB(), corpus)
    drawn = settings(MultinomialNB(), space, 6, 0, source)
    assert drawn == settings(MultinomialNB(), space, 6, 0, source) and len(drawn) == 6
    assert drawn != settings(MultinomialNB(), space, 6, 1, source)


def test_other_estimators(corpus, tmp_path):
    counted = CorpusSearchCV(LDAClassifier(n_epochs=2), {"n_components": [1, 2]}, cv=3, n_jobs=1).fit(corpus)
    assert counted.oof_proba_.shape == (400, 3)
    assert counted.cv_results_["mean_accuracy"].max() > 0.6
    labels = corpus.read(0, corpus.n_documents).labels
    assert (counted.oof_proba_.argmax(axis=1) == labels).mean() == pytest.approx(
        counted.cv_results_["mean_accuracy"][counted.best_index_], abs=0.01
    )
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=150)
    X = rng.normal(y[:, None], 1.0, (150, 3))
    table = CorpusSearchCV(GaussianNB(), {"loss": ["ncll", "nll"]}, cv=3, n_jobs=1).fit(X, y)
    write_corpus(tmp_path / "table.zarr", X, y, dense=True)
    on_disk = CorpusSearchCV(GaussianNB(), {"loss": ["nll"]}, cv=3, n_jobs=1).fit(open_corpus(tmp_path / "table.zarr"))
    assert min(table.best_estimator_.score(X, y), on_disk.best_estimator_.score(X, y)) > 0.7


def test_numbers(documents):
    X = documents[0][:120]
    y = np.asarray(X[:, :5].sum(axis=1)).ravel() - np.asarray(X[:, 5:10].sum(axis=1)).ravel()
    model = SupervisedLDARegressor(n_components=3, n_epochs=2)
    found = CorpusSearchCV(model, {"n_components": [2, 4]}, cv=3, metric="R2", n_jobs=1).fit(X, y.astype(float))
    assert found.best_params_ in ({}, {"n_components": 2}, {"n_components": 4})


def test_topics_and_clusters_are_chosen_by_perplexity(corpus, documents):
    for model, name in (
        (LatentDirichletAllocation(n_epochs=2), "n_components"),
        (MultinomialMixture(), "n_components"),
    ):
        more = {"cv": 3, "metric": "perplexity", "n_jobs": 1}
        found = CorpusSearchCV(model, {name: [1, 3]}, **more).fit(corpus)
        means = found.cv_results_["mean_test_score"]
        assert found.best_score_ == means.max() < 0 and len(set(means)) > 1
        assert np.isfinite(CorpusSearchCV(model, {name: [3]}, **more, refit=False).fit(documents[0]).best_score_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "AUC"}, "metric must be one of"),
        ({"metric": "R2"}, "has no R2"),
        ({"space": {"stepp": [1]}}, "has no stepp; did you mean step"),
        ({"space": {"loss": ["hinge", "foo"]}}, "what is tried of loss: loss must be .* got 'foo'"),
        ({"space": {"loss": ["auto", "nll"]}}, "list these two"),
        ({"estimator": MultinomialNB(norm="x")}, "norm must be"),
        ({"estimator": MultinomialNB(alpha=0.0), "space": {"loss": ["nll"]}}, "alpha must be positive"),
        ({"space": {"loss": "hinge"}}, "list of values"),
        ({"space": {"loss": []}}, "no value"),
        ({"n_trials": 0}, "n_trials"),
        ({"cv": 1}, "2 or more"),
        ({"seconds": 0}, "seconds"),
    ],
)
def test_mistakes(corpus, settings, message):
    with pytest.raises(ValueError, match=message):
        CorpusSearchCV(**{"estimator": MultinomialNB(), **settings}).fit(corpus)


def test_the_default_is_what_a_fit_of_it_is(tmp_path):
    """Where classes overlap, loss="auto" is NCLL: so are the default, and settings that name no loss."""
    X, y = overlapping(900, 4, 2)
    assert MultinomialNB(n_jobs=1).fit(X, y).loss_ == "ncll"
    more = {"space": {"step": [0.3]}, "cv": 3, "n_jobs": 1, "halving": False}
    ncll = CorpusSearchCV(MultinomialNB(loss="ncll"), **more).fit(X, y)
    for resume in (False, True):
        found = CorpusSearchCV(MultinomialNB(), **more).fit(X, y, checkpoint=tmp_path / "run", resume=resume)
        assert found.estimator.loss == "auto" and found.tuned_.loss == found.best_estimator_.loss_ == "ncll"
        same(found, ncll)
        assert 'The default has loss="ncll" here' in "\n".join(lines(found))
        assert "The default has" not in "\n".join(lines(ncll))


def test_the_report_says_that_a_budget_left_ncll_out():
    X, y = overlapping(900, 4, 2)
    found = CorpusSearchCV(MultinomialNB(), cv=3, n_jobs=1, total_epochs=1).fit(X, y)
    said = " ".join(found.summary().split())
    assert 'The default has loss="hinge" here: the budget left nothing to try NCLL, which a fit would.' in said


def test_the_loss_of_the_default_costs_nothing_where_classes_are_apart(documents):
    """The folds' own results settle it: nothing is fitted beside the settings, and no setting learns twice."""
    X, y = documents[0], np.arange(400) % 3
    X = sp.csr_matrix(X + 9 * sp.csr_matrix((np.ones(400), (range(400), y)), X.shape))
    epochs = []
    space = {"loss": ["hinge", "ncll"], "step": [0.1]}
    found = CorpusSearchCV(MultinomialNB(), space, cv=3, n_jobs=1, callbacks=[epochs.append]).fit(X, y)
    assert found.tuned_.loss == "hinge" and len(found.trials_) == 3
    assert epochs.pop().what == LAST
    assert [event.epoch for event in epochs] == list(range(1, len(epochs) + 1))  # all in one turn
    listed = CorpusSearchCV(MultinomialNB(), {"loss": ["hinge", "ncll"]}, cv=3, n_jobs=1, refit=False).fit(X, y)
    assert [trial.params for trial in listed.trials_] == [{}, {"loss": "ncll"}]  # the default is the hinge loss


def test_listed_losses_are_not_trained_again_where_the_default_is_settled():
    X, y = overlapping(900, 4, 2)
    more = {"cv": 3, "n_jobs": 1, "halving": False}
    epochs = []
    found = CorpusSearchCV(MultinomialNB(), {"loss": ["hinge", "ncll"]}, callbacks=[epochs.append], **more).fit(X, y)
    assert [event.epoch for event in epochs[:-1]] == list(range(1, len(epochs)))  # all in one turn
    assert found.tuned_.loss == "ncll" and [trial.params for trial in found.trials_] == [{}, {"loss": "hinge"}]
    for trial, loss in zip(found.trials_, ("ncll", "hinge"), strict=True):
        (alone,) = CorpusSearchCV(MultinomialNB(loss=loss), {}, **more).fit(X, y).trials_
        assert trial.scores["accuracy"].tolist() == alone.scores["accuracy"].tolist()
        assert trial.scores["log-loss"] == pytest.approx(alone.scores["log-loss"], rel=1e-3)


@pytest.mark.parametrize("model", [MultinomialNB(), MultinomialNB(loss="ncll"), MultiLabelNB()], ids=repr)
def test_no_setting_of_a_space_is_the_default_in_other_words(model, documents):
    X, y = documents[:2]
    labels = [[label] for label in y] if isinstance(model, MultiLabelNB) else y
    space = default_space(model)
    tried = settings(model, space, None, 0, source_of(clone(model), X, labels))
    size = sum(len(ParameterGrid(part)) for part in space)
    assert tried[0] == {} and len(tried) == size  # one of the space is the default
    one = CorpusSearchCV(model, {"norm": [7.0, 10.0]}, cv=3, max_epochs=1, n_jobs=1, refit=False).fit(X, labels)
    assert [trial.params for trial in one.trials_] == [{}, {"norm": 7.0}]


def test_the_default_in_other_words_is_one_row_where_its_loss_is_settled():
    X, y = overlapping(900, 4, 2)
    space = [{"loss": ["ncll"], "weighting": ["tfidf"], "norm": [10.0], "step": [1.0]}]
    found = CorpusSearchCV(MultinomialNB(), space, cv=3, n_jobs=1, halving=False).fit(X, y)
    assert found.tuned_.loss == "ncll" and [trial.params for trial in found.trials_] == [{}, {"loss": "hinge"}]


def test_settings_that_cannot_be_trained_are_told_and_passed_over(corpus):
    found = CorpusSearchCV(MultinomialNB(), {"alpha": [0.0, 2.0]}, cv=3, n_jobs=1).fit(corpus)
    assert "alpha must be" in found.cv_results_["error"][1]
    assert found.best_params_.get("alpha") != 0.0


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_has_a_space_of_its_own_whose_settings_it_takes(name, corpus):
    model = estimator_class(name)()
    space = default_space(model)
    assert all(part for part in space)
    for params in settings(model, space, None, 0, source_of(MultinomialNB(), corpus)):
        parameters.check(clone(model).set_params(**params))
    weighted = default_space(model, weighted=True)
    assert not any("weighting" in part for part in weighted)


def test_estimators_of_others_are_refused():
    with pytest.raises(TypeError, match="got LinearSVC: tune others by GridSearchCV"):
        CorpusSearchCV(LinearSVC()).fit(np.eye(4), [0, 1, 0, 1])
