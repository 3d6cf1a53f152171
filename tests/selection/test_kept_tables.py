"""Tables in checkpoints of searches come back bit by bit, and take only what has changed."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from sdem_dist import CorpusSearchCV, ModelError, MultiLabelNB, MultinomialNB
from sdem_dist.engine.memory import LOADED, REFUSED, SHARE
from sdem_dist.inputs.source import source_of
from sdem_dist.selection.packed import packed, unpacked
from sdem_dist.selection.side_by_side import at_once


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_what_is_packed_comes_back(share):
    rng = np.random.default_rng(0)
    start = rng.random((301, 7)) + 0.5
    once = np.where(rng.random(start.shape) < share, start + rng.standard_normal(start.shape, np.float32), start)
    twice = np.where(rng.random(start.shape) < share, once + rng.standard_normal(start.shape, np.float32), once)
    twice[0, 0] = np.inf if share else start[0, 0]
    for table in (start, once, twice):
        parts = packed(table, start)
        assert np.array_equal(unpacked(parts, start), table)
    assert sum(of.nbytes for of in packed(once, start).values()) < (0.5 * share + 0.05) * start.nbytes


def test_a_search_goes_on_with_the_same_validation_documents_only(corpus, tmp_path):
    whole, space = corpus.read(0, corpus.n_documents).to_csr(), {"step": [0.1, 0.5]}
    labels = np.array(corpus.header.classes)[corpus.read(0, corpus.n_documents).labels]

    def searched(n, **more):
        cv = (whole[:n], labels[:n])
        return CorpusSearchCV(MultinomialNB(), space, cv=cv, n_jobs=1).fit(corpus, checkpoint=tmp_path / "run", **more)

    first = searched(40)
    assert searched(40, resume=True).best_score_ == first.best_score_
    with pytest.raises(ModelError, match="validation: "):
        searched(50, resume=True)


@pytest.mark.parametrize("kept", [False, True])
def test_tables_that_settings_begin_with_are_held_for_checkpoints_alone(corpus, tmp_path, monkeypatch, kept):
    begun, held = [], []
    whole = MultinomialNB.beginnings

    def beginnings(self, *given):
        found = whole(self, *given)
        begun.extend(weakref.ref(start.initial.words) for start in found)
        return found

    monkeypatch.setattr(MultinomialNB, "beginnings", beginnings)
    space = {"alpha": [0.1, 0.5, 2.0]}  # each has a table of its own; after an epoch half of the settings go

    def see(event):
        alive = sum(trial.alive for trial in event.trials)
        held.append((alive, len({id(table()) for table in begun if table() is not None})))

    search = CorpusSearchCV(
        MultinomialNB(loss="hinge"), space, cv=3, n_trials=None, n_jobs=1, refit=False, callbacks=[see]
    )
    search.fit(corpus, checkpoint=tmp_path / "run" if kept else None)
    alive, tables = held[0]
    assert len(begun) == 4 * 3 and 0 < alive < 4
    assert tables == (alive if kept else 0)


def test_memory_that_does_not_hold_one_setting_is_named(corpus):
    estimator, source = MultinomialNB(), source_of(MultinomialNB(), corpus)
    model = 8 * source.n_features * len(source.classes)
    for fits, tables in [(3, 45.1), (1, 15.1), (1, 11.1)]:
        assert at_once(estimator, source, 5, 3, int((LOADED + tables * model) / SHARE), 1) == fits
    refused = r"one setting in 5 folds takes .* GiB of a worker, which has .* take fewer folds"
    for several, tables in [(False, 10.9), (True, 21.9)]:  # of each label a column that has it and one that has it not
        of = MultiLabelNB() if several else estimator
        with pytest.raises(ModelError, match=refused):
            at_once(of, source, 5, 3, int((LOADED + tables * model) / REFUSED), 1)


def test_tables_that_are_kept_for_checkpoints_count(corpus):
    estimator, source = MultinomialNB(), source_of(MultinomialNB(), corpus)
    model = 8 * source.n_features * len(source.classes)
    # Of five folds three tables each, and the one that they begin with.
    for tables, without, kept in [(3 * 15.5, 3, 2), (3 * 16.1, 3, 3), (15.5, 1, 1)]:
        given = estimator, source, 5, 3, int((LOADED + tables * model) / SHARE), 4
        assert (at_once(*given), at_once(*given, 0)) == (without, kept)
    assert at_once(estimator, source, 5, 3, 1 << 40, 4, int(2.1 * model / SHARE)) == 2  # the driver's memory
    needed = int((LOADED + 12 * model) / REFUSED)
    assert at_once(estimator, source, 5, 3, needed + 2, 1, 0) == 1
    with pytest.raises(ModelError, match="one setting in 5 folds takes"):
        at_once(estimator, source, 5, 3, needed - 2, 1, 0)


def test_workers_share_the_models_of_a_setting(corpus):
    estimator, source = MultinomialNB(), source_of(MultinomialNB(), corpus)
    model = 8 * source.n_features * len(source.classes)
    for n_workers, tables in [(1, 11.0), (2, 5.5), (8, 3.0), (100, 3.0)]:
        memory = int((LOADED + model * tables) / REFUSED)
        assert at_once(estimator, source, 5, 3, memory + 2, n_workers) == 1
        with pytest.raises(ModelError, match=f"takes {tables * model / 2**30:.2f} GiB of a worker"):
            at_once(estimator, source, 5, 3, memory - 2, n_workers)
