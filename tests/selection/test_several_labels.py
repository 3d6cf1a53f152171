"""Folds of several labels per document: scores are those of training alone, anywhere and after a stop; what is suspected."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from selection.conftest import same
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, hamming_loss, log_loss
from sklearn.model_selection import KFold

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
from sdem_dist.label_scores import Decisions, fitted, fitting_sums
from sdem_dist.selection.label_metrics import decisions_by_fold, decisions_of_all
from sdem_dist.selection.metrics import measured
from sdem_dist.selection.predicted import Predicted
from sdem_dist.selection.summary import differences, lines

NAMES = np.array(["arts", "money", "sport"])
SPACE = {"loss": ["hinge", "ncll"], "norm": [5.0, 10.0]}
ALONE = {"n_epochs": 2, "validation_fraction": 0.0, "calibrate": False, "n_jobs": 1}


def made(n, seed=0):
    """Documents with the topics of their labels, one of all documents among them."""
    rng = np.random.default_rng(seed)
    topics = np.random.default_rng(7).dirichlet(np.full(60, 0.2), size=4)
    members = rng.random((n, 3)) < [0.15, 0.5, 0.3]
    mixed = topics[0] + 2.0 * members @ topics[1:]
    words = np.stack([rng.multinomial(12, p / p.sum()) for p in mixed])
    return sp.csr_matrix(words.astype(np.uint8)), members.astype(int)


def lists_of(members):
    return [NAMES[row > 0].tolist() for row in members]


@pytest.fixture(scope="module")
def documents():
    return made(300)


@pytest.fixture(scope="module")
def sets(documents, tmp_path_factory):
    X, members = documents
    return write_corpus(tmp_path_factory.mktemp("sets") / "c.zarr", X, lists_of(members), shard_documents=100)


def stored(corpus):
    """The documents of a corpus and their labels, in stored order."""
    whole = corpus.read(0, corpus.n_documents)
    table = np.array([[name in labels for name in NAMES] for labels in corpus.header.label_sets])
    return whole.to_csr(), table[whole.labels].astype(int)


def search(X, y=None, **more):
    return CorpusSearchCV(MultiLabelNB(), SPACE, **{"cv": 3, "n_jobs": 1, **more}).fit(X, y)


@pytest.fixture(scope="module")
def found(sets):
    return search(sets)


def test_a_setting_is_scored_as_it_is_when_trained_alone(sets):
    space = {"loss": ["ncll"], "norm": [5.0]}
    of = CorpusSearchCV(MultiLabelNB(**ALONE), space, cv=3, metric="macro-F1", refit=False, n_jobs=1).fit(sets)
    X, y = stored(sets)
    for trial in of.trials_:
        for fold, (train, test) in enumerate(sets.folds(3)):
            alone = MultiLabelNB(**ALONE).set_params(**trial.params).fit(train)
            expected = alone.evaluate(test)
            for name, key in [("macro-F1", "macro_f1"), ("micro-F1", "micro_f1"), ("accuracy", "accuracy")]:
                assert trial.scores[name][fold] == pytest.approx(expected[key], rel=1e-12)
            assert trial.scores["log-loss"][fold] == pytest.approx(expected["label_log_loss"], rel=1e-5)
            inside = trial.found.folds == fold
            assert trial.found.scores[inside] == pytest.approx(alone.decision_function(X[inside]), rel=1e-4, abs=1e-4)
            assert np.array_equal(trial.found.members[inside], y[inside])


@pytest.mark.parametrize("model", [MultiLabelNB(**ALONE), SupervisedLDAClassifier(4, n_epochs=2, n_jobs=1)])
def test_scores_of_documents_set_apart_are_those_by_hand_over_kfold(model, documents):
    X, members = documents
    for train, test in KFold(3, shuffle=True, random_state=1).split(X):
        apart = X[test], members[test]
        of = cross_validate(model, X[train], members[train], cv=apart, metric="Hamming-loss")
        alone = model.fit(X[train], members[train])
        odds = alone.decision_function(X[test])
        assert of.scores["log-loss"][0] == pytest.approx(
            np.mean([log_loss(y, expit(column)) for y, column in zip(members[test].T, odds.T, strict=True)]), rel=1e-4
        )
        given = of.proba >= 0.5
        if isinstance(model, SupervisedLDAClassifier):  # thresholds are learned from these documents
            given = of.proba >= decisions_of_all(Predicted(odds, test, np.ones(100), np.zeros(100), None, None,
                                                           members[test], ("thresholds",))).thresholds  # fmt: skip
        assert of.scores["micro-F1"][0] == pytest.approx(f1_score(members[test], given, average="micro"))
        assert of.scores["accuracy"][0] == pytest.approx(accuracy_score(members[test], given))
        assert of.scores["Hamming-loss"][0] == pytest.approx(hamming_loss(members[test], given))


def test_topics_are_fitted_without_the_fold(sets, documents):
    model = SupervisedLDAClassifier(4, n_epochs=2, n_jobs=1)
    for X, y in [(sets, None), (documents[0], lists_of(documents[1]))]:
        of = cross_validate(model, X, y, cv=3)
        table, members = stored(sets) if X is sets else documents
        for fold in range(3):
            inside = of.folds == fold
            training = (sets.folds(3).train(fold),) if X is sets else (table, members, ~inside * 1.0)
            alone = model.fit(*training)
            assert of.proba[inside] == pytest.approx(alone.predict_proba(table[inside]))
            losses = [log_loss(members[inside, k], of.proba[inside, k]) for k in range(3)]
            assert of.scores["log-loss"][fold] == pytest.approx(np.mean(losses))


def test_decisions_of_a_fold_are_learned_from_the_others():
    rng = np.random.default_rng(0)
    odds, folds = rng.normal(size=(90, 2)), np.arange(90) % 3
    members = (odds + rng.normal(size=(90, 2)) > 0.7).astype(np.uint8)
    of = Predicted(odds, folds, np.ones(90), folds, members=members, decides=("temperatures", "thresholds"))
    decisions = decisions_by_fold(of)
    for fold in range(3):
        outside = folds != fold
        expected = fitted(fitting_sums(odds[outside], members[outside], np.ones(60)), 2)[0]
        assert np.allclose(decisions[fold].temperatures, expected.temperatures)
        assert np.allclose(decisions[fold].thresholds, expected.thresholds)
        other = np.where(folds[:, None] == fold, 1 - members, members)  # its own labels change nothing
        again = decisions_by_fold(of._replace(members=other))[fold]
        assert all(np.array_equal(a, b) for a, b in zip(again, decisions[fold], strict=True))
    fixed = decisions_by_fold(of._replace(decides=()))[0]
    assert (fixed.thresholds == 0.5).all() and (fixed.temperatures == 1.0).all()
    assert all(isinstance(each, Decisions) for each in decisions.values())


def test_measures_are_those_of_scikit_learn():
    rng = np.random.default_rng(3)
    odds, members, weights = rng.normal(size=(50, 4)), rng.integers(2, size=(50, 4)), rng.random(50)
    of = Predicted(odds, np.zeros(50), weights, np.zeros(50), members=members)
    given, names = odds >= 0.0, ("micro-F1", "macro-F1", "accuracy", "Hamming-loss", "log-loss")
    values = measured(of, 1.0, names)
    more = {"sample_weight": weights}
    assert values["micro-F1"] == pytest.approx([f1_score(members, given, average="micro", **more)])
    assert values["macro-F1"] == pytest.approx([f1_score(members, given, average="macro", **more)])
    assert values["accuracy"] == pytest.approx([accuracy_score(members, given, **more)])
    assert values["Hamming-loss"] == pytest.approx([hamming_loss(members, given, **more)])
    losses = [log_loss(members[:, k], expit(odds[:, k]), **more) for k in range(4)]
    assert values["log-loss"] == pytest.approx([np.mean(losses)])


def test_the_winner_has_the_decisions_of_the_folds(sets, found):
    assert found.metric_ == "micro-F1" and any(trial.dropped for trial in found.trials_)
    best = found.trials_[found.best_index_]
    decisions = decisions_of_all(best.found)
    assert np.array_equal(found.best_estimator_.thresholds_, decisions.thresholds)
    assert np.array_equal(found.best_estimator_.temperatures_, decisions.temperatures)
    alone = MultiLabelNB(**{**found.best_params_, "validation_fraction": 0.0}).fit(sets)
    assert np.array_equal(found.best_estimator_.state_.words, alone.state_.words)
    assert found.oof_proba_ == pytest.approx(expit(best.found.scores / decisions.temperatures))
    assert found.classes_.tolist() == NAMES.tolist()
    assert found.predict(stored(sets)[0]).shape == (300, 3)


def test_the_same_anywhere(sets, client, found):
    same(search(sets, n_jobs=2), found)
    same(CorpusSearchCV(MultiLabelNB(), SPACE, cv=3).fit(sets, client=client), found)
    model, space = SupervisedLDAClassifier(3, n_epochs=1, n_jobs=1), {"n_components": [2]}
    here, there = (CorpusSearchCV(model, space, cv=2).fit(sets, client=where) for where in (None, client))
    same(here, there)
    assert np.array_equal(here.best_estimator_.thresholds_, there.best_estimator_.thresholds_)


@pytest.mark.parametrize(
    ("model", "space"),
    [(MultiLabelNB(), SPACE), (SupervisedLDAClassifier(3, n_epochs=1, n_jobs=1), {"n_components": [2, 4]})],
)
def test_a_search_that_was_stopped_goes_on(model, space, sets, tmp_path):
    class Stop(Exception):
        pass

    def stop(event):
        told.append(event)
        if event.epoch == 2 and not stopped:
            stopped.append(event)
            raise Stop

    stopped, told = [], []
    straight = CorpusSearchCV(model, space, cv=2, n_jobs=1).fit(sets)
    with pytest.raises(Stop):
        CorpusSearchCV(model, space, cv=2, n_jobs=1, callbacks=[stop]).fit(sets, checkpoint=tmp_path / "run")
    for _ in range(2):
        more = {"checkpoint": tmp_path / "run", "resume": True}
        again = CorpusSearchCV(model, space, cv=2, n_jobs=1, callbacks=[stop]).fit(sets, **more)
        same(again, straight)
        for a, b in zip(again.trials_, straight.trials_, strict=True):
            assert all(np.array_equal(a.scores[name], b.scores[name]) for name in b.scores)
        assert np.array_equal(again.best_estimator_.thresholds_, straight.best_estimator_.thresholds_)
    with pytest.raises(ValueError, match="other settings"):
        CorpusSearchCV(model, space, cv=3).fit(sets, checkpoint=tmp_path / "run", resume=True)


def test_a_setting_that_was_fitted_is_not_fitted_again(sets, tmp_path, monkeypatch):
    fits = []
    fit = SupervisedLDAClassifier.fit
    monkeypatch.setattr(
        SupervisedLDAClassifier, "fit", lambda self, *a, **k: (fits.append(self), fit(self, *a, **k))[1]
    )
    model = SupervisedLDAClassifier(3, n_epochs=1, n_jobs=1)
    for expected in (4, 0):
        fits.clear()
        CorpusSearchCV(model, {"n_components": [2]}, cv=2, refit=False).fit(
            sets, checkpoint=tmp_path / "run", resume=not expected
        )
        assert len(fits) == expected


def test_forms_of_labels_are_one_in_memory(documents):
    X, members = documents
    one = search(X, lists_of(members))
    for y in (members, sp.csr_matrix(members), [set(labels) for labels in lists_of(members)]):
        other = search(X, y)
        same(one, other)
    assert other.classes_.tolist() == NAMES.tolist()
    assert np.array_equal(one.predict(X), other.predict(X))


def test_a_metric_of_ones_own_takes_matrices(sets):
    def least(members, proba):
        assert members.shape == proba.shape == (100, 3)
        return float(np.where(members > 0, proba, 1.0 - proba).mean())

    assert 0.5 < search(sets, metric=least, n_trials=2, refit=False).best_score_ < 1.0


def test_nested_scores(sets, documents):
    X, members = documents
    model = SupervisedLDAClassifier(3, n_epochs=1, n_jobs=1)
    for estimator, space in ((MultiLabelNB(), {"loss": ["ncll"]}), (model, {"n_components": [2]})):
        for given in ((sets, None), (X, lists_of(members))):
            of = CorpusSearchCV(estimator, space, cv=2, nested=True, refit=False, n_jobs=1).fit(*given)
            assert (
                of.nested_scores_.shape == (2,) and (of.nested_scores_ > 0.0).all() and (of.nested_scores_ < 1.0).all()
            )


def test_a_label_of_one_document_is_known_to_all_folds(documents):
    X, members = documents
    lists = lists_of(members)
    lists[5] = [*lists[5], "rare"]
    for model in (MultiLabelNB(n_epochs=1), SupervisedLDAClassifier(3, n_epochs=1, n_jobs=1)):
        of = cross_validate(model, X, lists, cv=3)
        assert of.proba.shape == (300, 4) and np.isfinite(of.scores["log-loss"]).all()


def test_sets_of_labels_are_spread_over_folds(sets):
    numbers, codes = sets.folds(3).numbers, sets.labels()
    counts = np.array([np.bincount(numbers[codes == code], minlength=3) for code in np.unique(codes)])
    assert (np.ptp(counts, axis=1) <= 1).all()


def test_documents_set_apart_may_have_other_sets(sets, tmp_path):
    X, members = made(90, seed=5)
    members[:, 0] = 0
    apart = write_corpus(tmp_path / "apart.zarr", X, lists_of(members))
    assert apart.header.label_sets != sets.header.label_sets
    for model in (MultiLabelNB(**ALONE), SupervisedLDAClassifier(3, n_epochs=1, n_jobs=1)):
        of = cross_validate(model, sets, cv=apart)
        alone = model.fit(sets).evaluate(apart)
        assert of.scores["log-loss"][0] == pytest.approx(alone["label_log_loss"], rel=1e-5)


def test_wrong_labels_are_suspected(documents, tmp_path):
    X, members = made(600, seed=3)
    wrong = np.random.default_rng(0).random(members.shape) < 0.1
    flipped = np.where(wrong, 1 - members, members)
    of = label_suspects(X, lists_of(flipped), n=None, n_jobs=1)
    assert len(of) == 1800 and of.n_documents == 600 and (np.diff(of.doubt) <= 0).all()
    columns = np.searchsorted(NAMES, of.labels)
    assert np.array_equal(of.present, flipped[of.documents, columns] > 0)
    assert of.doubt == pytest.approx(np.where(of.present, 1.0 - of.label_proba, of.label_proba))
    assert average_precision_score(wrong[of.documents, columns], of.doubt) > 0.6
    lines = repr(of).splitlines()
    assert lines[0].split() == ["document", "label", "given", "doubt", "p(label)"] and len(lines) == 22
    assert "is there" in repr(of) and "is missing" in repr(of)
    corpus = write_corpus(tmp_path / "c.zarr", X, lists_of(flipped))
    on_disk, codes = label_suspects(corpus, n=50, n_jobs=1), corpus.labels()
    has = [
        label in corpus.header.label_sets[codes[d]] for d, label in zip(on_disk.positions, on_disk.labels, strict=True)
    ]
    assert on_disk.present.tolist() == has and len(on_disk) == 50


def test_more_documents_teach_more(sets):
    curve = learning_curve(MultiLabelNB(n_jobs=1), sets, shares=(0.1, 1.0), cv=3)
    assert curve.micro_f1.shape == curve.log_loss.shape == (2, 3)
    assert curve.micro_f1[0].mean() < curve.micro_f1[1].mean()
    folds = sets.folds(3)
    alone = MultiLabelNB(n_jobs=1).fit(folds.train(1)).evaluate(folds.test(1))
    assert curve.micro_f1[1, 1] == alone["micro_f1"] and curve.accuracy[1, 1] == alone["accuracy"]


def test_one_label_a_document_is_scored_as_by_evaluate(tmp_path):
    X, members = made(200)
    corpus = write_corpus(tmp_path / "c.zarr", X, NAMES[members.argmax(axis=1)].tolist())
    of = cross_validate(MultiLabelNB(**ALONE), corpus, cv=2)
    for fold, (train, test) in enumerate(corpus.folds(2)):
        assert of.scores["accuracy"][fold] == MultiLabelNB(**ALONE).fit(train).evaluate(test)["accuracy"]


@pytest.mark.parametrize("metric", ["micro-F1", "macro-F1", "Hamming-loss"])
def test_the_winner_is_compared_by_the_metric_that_decides(documents, metric):
    X, members = documents
    search = CorpusSearchCV(MultiLabelNB(n_jobs=1), {"norm": [2.0, 20.0]}, metric=metric, cv=3, max_epochs=2)
    search.fit(X, lists_of(members))
    search.best_index_ = 1  # whichever won
    winner, default = search.trials_[1], search.trials_[0]
    of = differences(search)[0]
    assert [other.metric for other in differences(search)] == [metric, "log-loss", "accuracy"] and of.low < of.high
    figures, given = [], []
    for trial in (default, winner):
        decisions, found = decisions_by_fold(trial.found), np.zeros(trial.found.members.shape, bool)
        for row, fold in enumerate(trial.found.folds.tolist()):
            odds = trial.found.scores[row].astype(float) / decisions[fold].temperatures
            found[row] = expit(odds) >= decisions[fold].thresholds
        given.append(found)
        figures.append(score(metric, trial.found.members, found))
    assert (of.default, of.winner) == pytest.approx(figures)
    gain = (of.winner - of.default) * (-1 if metric == "Hamming-loss" else 1)
    assert (of.low + of.high) / 2 == pytest.approx(gain)
    rng, n = np.random.default_rng(0), len(given[0])  # the bootstrap knows the standard error, too
    drawn = [rng.integers(n, size=n) for _ in range(400)]
    gains = [np.subtract(*(score(metric, default.found.members[rows], has[rows]) for has in given)) for rows in drawn]
    assert (of.high - of.low) / 2 / 1.96 == pytest.approx(np.std(gains), rel=0.2)
    said = next(line for line in lines(search) if line.startswith(f"  {metric} {of.winner:.4f}, the default's"))
    same = f"{of.winner:.4f}" == f"{of.default:.4f}"
    assert said.endswith("the same" if same else "higher" if of.winner > of.default else "lower")


def score(metric, members, given):
    if metric == "Hamming-loss":
        return hamming_loss(members, given)
    return f1_score(members, given, average=metric[:5], zero_division=0)


def test_what_does_not_go_together_is_refused(documents, sets):
    X, members = documents
    with pytest.raises(
        ValueError, match=r"has no perplexity of several labels per document: choose micro-F1, macro-F1"
    ):
        CorpusSearchCV(MultiLabelNB(), {}, metric="perplexity").fit(sets)
    with pytest.raises(
        ValueError, match=r"MultiLabelNB has no micro-F1: choose log-loss, accuracy, macro-F1 or perplexity"
    ):
        CorpusSearchCV(MultiLabelNB(), {}, metric="micro-F1").fit(X, members[:, 0])
    with pytest.raises(ValueError, match="train MultiLabelNB or SupervisedLDAClassifier"):
        cross_validate(MultinomialNB(), sets)
    with pytest.raises(ValueError):
        cross_validate(MultinomialNB(), X, lists_of(members))
    for apart in (sets, (X, members)):
        with pytest.raises(ValueError, match="labels"):
            cross_validate(MultiLabelNB(), X, NAMES[members.argmax(axis=1)], cv=apart)
