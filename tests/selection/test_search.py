"""Searches: scores are those of fits without the fold, the same winner anywhere and after a stop, what is refused."""

import numpy as np
import pytest
from reference.catalogue_cases import CASES, write_corpora
from reference.trained_bits import Stop
from selection.conftest import made, same, searched
from sklearn import config_context
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

import sdem_dist as sd
from sdem_dist.catalogue import ESTIMATORS
from sdem_dist.selection.search import FIT, FOLD, LAST, RESUMED
from sdem_dist.text.vectorizer import VectorizerSettings

SPACE = {"loss": ["hinge", "ncll"], "step": [0.1, 0.5], "norm": [5.0, 10.0]}
FIRST = {(c.estimator, c.corpus): name for name, c in reversed(CASES.items()) if not c.corpus.startswith("half")}
"""A case of each estimator and kind of documents."""


def search(corpus, **more):
    return searched(corpus, **{"space": SPACE, **more})


@pytest.fixture(scope="module")
def found(corpus):
    return search(corpus)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora")
    write_corpora(folder, 600)
    return folder


def test_attributes_of_scikit_learn(corpus, found):
    results, n = found.cv_results_, len(found.trials_)
    assert n == found.n_settings_ == 9 and results["params"][0] == {}
    assert {len(column) for column in results.values()} == {n}
    assert sorted(results["rank_test_score"]) == list(range(1, n + 1))
    assert found.best_index_ == 0 or results["rank_test_score"][found.best_index_] == 1
    assert results["mean_test_score"][found.best_index_] == found.best_score_
    splits = np.stack([results[f"split{i}_test_score"] for i in range(3)])
    np.testing.assert_allclose(results["mean_test_score"], np.nanmean(splits, axis=0))
    assert results["param_norm"].mask[0] and results["param_norm"][1] in (5.0, 10.0)
    assert set(found.best_params_) <= set(SPACE)
    alone = sd.MultinomialNB(**found.best_params_).fit(corpus)
    assert np.array_equal(found.best_estimator_.state_.words, alone.state_.words)
    assert found.best_estimator_.temperature_ == alone.temperature_
    assert found.predict(corpus.read(0, 400).to_csr()).shape == (400,)
    assert len(pytest.importorskip("pandas").DataFrame(results)) == n


def by_hand(model, train, test):
    """What `evaluate` and its like say of a model of the other folds, by the names of metrics."""
    model.fit(train)
    if hasattr(model, "perplexity"):
        return {"perplexity": model.perplexity(test)}
    result = model.evaluate(test)
    if type(model).__name__ == "GaussianRegressor":
        inside, table = test.mask, test.read(0, test.n_documents).values
        result["r2"] = r2_score(table[inside, -1], model.predict(table[inside, :-1]))
    names = {"r2": "R2", "perplexity": "perplexity", "distance": "distance"}
    if model.spec.target == "labels":
        if not model.several_labels:
            log_proba, labels = model.predict_log_proba(test), test.labels()[test.mask]
            result["label_log_loss"] = -log_proba[np.arange(len(labels)), labels].mean()
        names = {"accuracy": "accuracy", "label_log_loss": "log-loss"}
    return {ours: result[own] for own, ours in names.items() if own in result}


@pytest.mark.parametrize("name", FIRST.values())
def test_folds_score_every_estimator_as_a_fit_without_them_does(name, corpora):
    case = CASES[name]
    corpus = sd.open_corpus(corpora / case.corpus)
    of = sd.cross_validate(case.made(), corpus, cv=2)
    for fold, (train, test) in enumerate(corpus.folds(2)):
        expected = by_hand(case.made(), train, test)
        assert set(expected) <= set(of.scores) and expected
        for metric, value in expected.items():
            assert of.scores[metric][fold] == pytest.approx(value, rel=1e-5), metric


def test_all_estimators_are_there():
    assert {CASES[name].estimator for name in FIRST.values()} == set(ESTIMATORS)


def test_documents_in_memory_are_in_the_order_in_which_they_came(documents):
    X, y, _ = documents
    of = sd.cross_validate(sd.MultinomialNB(loss="nll"), X, y, cv=3)
    for fold in range(3):
        model = sd.MultinomialNB(loss="nll").fit(X[of.folds != fold], y[of.folds != fold])
        inside = of.folds == fold
        np.testing.assert_allclose(of.proba[inside], model.predict_proba(X[inside]), rtol=1e-4)
        assert of.scores["accuracy"][fold] == pytest.approx(model.score(X[inside], y[inside]))


@pytest.mark.parametrize("on_disk", [False, True])
def test_document_frequencies_are_of_the_training_part_of_each_fold(documents, corpus, on_disk):
    """With them go weights and `min_df`: a word of the fold alone is unknown to its model."""
    X, y, _ = documents
    given = (corpus,) if on_disk else (X, y)
    models = []

    class Watched(sd.MultinomialNB):
        def fit(self, *args, **more):
            models.append(super().fit(*args, **more))
            return self

    of = sd.cross_validate(Watched(min_df=40, n_jobs=1), *given, cv=3, n_jobs=1)
    rows = corpus.read(0, 400).to_csr() if on_disk else X
    for fold, model in enumerate(models):
        training = rows[of.folds != fold]
        frequencies = np.asarray((training > 0).sum(axis=0)).ravel()
        np.testing.assert_array_equal(model.document_frequency_, frequencies)
        assert model.weighting_.n_documents == training.shape[0]
        left_out = model.weighting_.factors(model.document_frequency_) == 0
        np.testing.assert_array_equal(left_out, frequencies < 40)
    assert len(models) == 3 and left_out.any() and not left_out.all()


def test_the_same_winner_on_threads_and_on_a_cluster(corpus, client, found):
    same(search(corpus, n_jobs=3), found)
    same(search(corpus, client=client), found)


@pytest.mark.parametrize("more", [{}, {"sampler": "optuna", "n_trials": 6}, {"halving": False}], ids=repr)
def test_stopped_anywhere_it_goes_on_as_if_nothing_had_happened(corpus, tmp_path, more):
    if "sampler" in more:
        pytest.importorskip("optuna")
    straight, seen = search(corpus, **more), list[object]()

    def stop(event):
        seen.append(event)
        if len(seen) in (1, 7, 12):
            raise Stop

    for attempt in range(4):
        try:
            again = search(corpus, **more, callbacks=[stop], checkpoint=tmp_path / "run", resume=attempt > 0, n_jobs=2)
        except Stop:
            continue
        same(again, straight)
    assert attempt == 3 and any(event.what == RESUMED for event in seen)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
    same(search(corpus, **more, checkpoint=tmp_path / "run", resume=True), straight)
    assert kept == {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}


def test_a_checkpoint_is_of_one_search(corpus, documents, tmp_path):
    def go(documents=(corpus,), resume=True, **more):
        search = sd.CorpusSearchCV(**{"estimator": sd.MultinomialNB(n_epochs=1), "space": {}, "cv": 2, **more})
        return search.fit(*documents, checkpoint=tmp_path / "run", resume=resume)

    go(resume=False, metric="log-loss")
    go()  # what the metric was anyway
    np.testing.assert_raises_regex(sd.ModelError, "earlier search", go, resume=False)
    np.testing.assert_raises_regex(sd.ModelError, "folds: 3, was 2", go, cv=3)
    with pytest.raises(sd.ModelError, match="estimator: 'LDAClassifier', was 'MultinomialNB'"):
        go(estimator=sd.LDAClassifier(n_components=2))
    np.testing.assert_raises_regex(sd.ModelError, "documents", go, documents=documents[:2])


def test_events_tell_how_far_it_is(corpus):
    events = []
    found = search(corpus, callbacks=[events.append])
    fits = [event for event in events if event.what == FIT]
    assert [event.done for event in fits] == list(range(1, sum(len(trial.folds) for trial in found.trials_) + 1))
    assert [event.done for event in events if event.what == FOLD] == [1, 2, 3] and events[-1].what == LAST
    assert {(event.n_trials, event.n_folds, event.metric) for event in events} == {(9, 3, "log-loss")}


def test_halving_ends_the_worse_half_after_each_fold(corpus, found):
    n_folds = [len(trial.folds) for trial in found.trials_]
    assert n_folds[0] == 3 and sorted(n_folds, reverse=True)[:3] == [3, 3, 3]
    assert n_folds.count(1) == 4 and n_folds.count(2) in (1, 2), "the default goes on besides"
    whole = search(corpus, halving=False)
    assert not any(trial.dropped for trial in whole.trials_) and whole.best_score_ >= found.best_score_
    for a, b in zip(found.trials_, whole.trials_, strict=True):
        assert a.dropped in (None, len(a.folds))
        for name, scores in a.scores.items():
            np.testing.assert_array_equal(scores, b.scores[name][: len(scores)])


def test_time_ends_a_search_in_the_midst_of_a_fit(corpus, caplog):
    short = search(corpus, seconds=1e-9)
    assert [len(trial.folds) for trial in short.trials_] == [1] + [0] * 8 and short.best_params_ == {}
    assert "Time limit reached: 8 settings were not tried." in short.summary() and "at the time limit" in caplog.text
    assert not any(trial.error for trial in search(corpus, seconds=1e6).trials_)


def test_a_grid_in_memory_chooses_as_scikit_learn(documents):
    X, y, _ = documents
    counting = {"estimator": sd.MultinomialNB(loss="nll"), "metric": "accuracy", "halving": False}
    ours = sd.CorpusSearchCV(space={"alpha": [0.01, 0.5, 20.0]}, cv=4, **counting).fit(X, y)
    splits = [(np.flatnonzero(ours.oof_folds_ != f), np.flatnonzero(ours.oof_folds_ == f)) for f in range(4)]
    theirs = GridSearchCV(sd.MultinomialNB(loss="nll"), {"alpha": [1.0, 0.01, 0.5, 20.0]}, cv=splits).fit(X, y)
    assert ours.cv_results_["mean_test_score"] == pytest.approx(theirs.cv_results_["mean_test_score"])


def test_texts_are_counted_as_a_setting_asks(documents):
    X, y, _ = documents
    texts = [" ".join(f"w{word}" for word in row.indices for _ in range(2)) for row in X]
    space = {"min_df": [1, 3], "vectorizer": [None, VectorizerSettings(ngram_range=(1, 2))]}
    groups = np.arange(400) % 40
    found = sd.CorpusSearchCV(sd.MultinomialNB(), space, cv=3, n_jobs=1, halving=False).fit(texts, y, groups=groups)
    assert set(found.predict(texts[:20])) <= set("abc")
    scores = {repr(trial.params.get("vectorizer")): trial.score("log-loss") for trial in found.trials_}
    assert len(set(scores.values())) == 2
    for trial in found.trials_:  # documents of a group are in one fold, however texts are read
        folds = [set(part.predictions.rows.tolist()) for part in trial.folds]
        assert [sorted(fold) for fold in folds] == [sorted(part.predictions.rows) for part in found.trials_[0].folds]


def test_documents_that_were_set_apart(corpus, tmp_path):
    X, y, _ = made(200, seed=5)
    held_out = sd.write_corpus(tmp_path / "held-out.zarr", X, y)
    of = sd.cross_validate(sd.MultinomialNB(), corpus, cv=held_out)
    alone = sd.MultinomialNB().fit(corpus).evaluate(held_out)
    assert of.scores["accuracy"].tolist() == [alone["accuracy"]] and len(of.proba) == 200
    found = sd.CorpusSearchCV(sd.MultinomialNB(), SPACE, cv=(X, y), n_jobs=1).fit(corpus)
    assert found.n_splits_ == 1 and not any(trial.dropped for trial in found.trials_)


@pytest.mark.parametrize("metric", ["accuracy", "macro-F1", "perplexity", lambda y, p: -np.abs(p.max(axis=1)).mean()])
def test_metrics(corpus, metric):
    found = search(corpus, metric=metric, n_trials=3, refit=False)
    assert np.isfinite(found.best_score_) and len(found.trials_) == 3
    np.testing.assert_raises_regex(AttributeError, "refit", found.predict, [[0]])


def test_a_nested_score_is_of_searches_without_the_fold(corpus, documents):
    how = {"estimator": sd.MultinomialNB(loss="nll"), "space": {"alpha": [0.01, 20.0]}, "metric": "accuracy"}
    for given in (documents[:2], (corpus,)):
        found = searched(*given, nested=True, **how)
        assert found.nested_score_ == found.nested_scores_.mean() and "Nested score (each fold" in found.summary()
    folds = corpus.folds(3)
    for fold in range(3):
        expected = searched(folds.train(fold), **how).best_estimator_.evaluate(folds.test(fold))["accuracy"]
        assert found.nested_scores_[fold] == pytest.approx(expected)


def test_what_k_means_has_is_said():
    X = np.random.default_rng(0).normal(np.arange(90)[:, None] % 3 * 9.0, 1.0, (90, 2))
    with pytest.raises(ValueError, match="KMeans has no metric perplexity: use distance"):
        sd.CorpusSearchCV(sd.KMeans(), metric="perplexity").fit(X)
    found = sd.CorpusSearchCV(sd.KMeans(1, n_jobs=1), {"n_clusters": [3]}, cv=3).fit(X)
    assert found.metric_ == "distance" and found.best_params_ == {"n_clusters": 3}
    assert 1.0 < -found.best_score_ < 4.0  # two columns of variance 1
    assert "Distances shrink with more clusters" in found.summary()
    assert found.best_estimator_.labels_.shape == (90,)


@pytest.mark.parametrize(("settings", "message"), [
    ({"metric": "AUC"}, "metric must be one of"),
    ({"metric": "R2"}, "has no metric R2"),
    ({"space": {"stepp": [1]}}, "Unknown parameter 'stepp'. Did you mean 'step'"),
    ({"space": {"loss": ["hinge", "foo"]}}, "values of loss: loss must be .* got 'foo'"),
    ({"estimator": sd.MultinomialNB(norm="x")}, "norm must be"),
    ({"estimator": sd.MultinomialNB(alpha=0.0), "space": {"loss": ["nll"]}}, "alpha must be positive"),
    ({"space": {"loss": "hinge"}}, "must be a list or"),
    ({"space": {"loss": []}}, "no value"),
    ({"n_trials": 0}, "n_trials"),
    ({"sampler": "optuna", "n_trials": None}, "a search with Optuna needs a limit"),
    ({"cv": 1}, "at least 2"),
    ({"seconds": 0}, "seconds"),
    ({"halving": "brackets"}, "halving"),
    ({"nested": True, "cv": (np.eye(3), [0, 1, 2])}, "need folds"),
    ({"estimator": LinearSVC()}, "got LinearSVC: for others, use scikit-learn's GridSearchCV"),
    ({"estimator": sd.MultinomialNB}, "must be an instance"),
])  # fmt: skip
def test_mistakes(corpus, settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        sd.CorpusSearchCV(**{"estimator": sd.MultinomialNB(), **settings}).fit(corpus)


def test_settings_that_cannot_be_trained_are_told_and_passed_over(corpus):
    found = searched(corpus, space={"alpha": [0.0, 2.0]})
    assert "alpha must be" in found.cv_results_["error"][1] and "alpha must be" in found.summary()
    assert found.best_params_.get("alpha") != 0.0


def test_as_many_settings_are_tried_as_are_asked_for(corpus):
    """The default's loss is settled by each fit: it adds no setting."""
    found = sd.CorpusSearchCV(sd.MultinomialNB(), n_trials=4, cv=2, n_jobs=1, refit=False).fit(corpus)
    assert len(found.trials_) == found.n_settings_ == 4 and found.summary().startswith("Tried 4 settings, each on 2")
    (first, *_) = sd.CorpusSearchCV(sd.MultiLabelNB(), {}, cv=2).fit(corpus).summary().splitlines()
    assert first == "Tried 1 setting, each on 2 folds:"


@pytest.mark.filterwarnings("error")
def test_columns_with_names_are_no_reason_to_warn(tmp_path):
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True, as_frame=True)
    for given in ((sd.write_corpus(tmp_path / "wine.zarr", X, y, dense=True),), (X, y)):
        assert sd.CorpusSearchCV(sd.GaussianNB(), cv=3, n_trials=2, refit=False).fit(*given).best_score_ > -0.2


def shown(value):
    """Return the page that a notebook shows: it asks for all forms at once before it asks for HTML."""
    bundle = getattr(value, "_repr_mimebundle_", dict)()
    return bundle.get("text/html") or getattr(value, "_repr_html_", lambda: None)()


def test_a_fitted_search_shows_its_summary_and_another_the_diagram(documents):
    found = searched(*documents[:2], space={"loss": ["nll"]})
    page = shown(found)
    assert page == found._repr_html_() and "sk-top-container" not in page
    assert page.count("<tr") == 3 and "the default" in page and "loss=nll" in page
    for line in found.summary().splitlines()[-3:]:
        assert line.strip() in page
    assert max(map(len, found.summary().splitlines())) <= 80
    found.trials_[1].params["loss"] = "<script>"
    assert "<script>" not in shown(found) and "&lt;script&gt;" in shown(found)
    assert "sk-top-container" in shown(sd.CorpusSearchCV(sd.MultinomialNB()))
    with config_context(display="text"):
        assert shown(found) is None and not hasattr(found, "_repr_html_")
