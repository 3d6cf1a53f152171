"""Workers that are killed while a search is under way: the same winner, with the same bits."""

from __future__ import annotations

import os
import signal

import numpy as np
from faults.clusters import all_gone, local_cluster, pids

from sdem_dist import CorpusSearchCV, MultinomialNB

SPACE = {"loss": ["hinge", "ncll"], "step": [0.1, 0.5]}


def test_workers_die_after_the_first_and_the_third_fit(corpus):
    expected = CorpusSearchCV(MultinomialNB(), SPACE, cv=3, n_jobs=1, halving=False).fit(corpus)
    lost = []

    def kill(event):
        if event.what == "fit" and event.done in (1, 3):
            lost.append(pids(client)[0])
            os.kill(lost[-1], signal.SIGKILL)

    with local_cluster(2) as (_, client):
        found = CorpusSearchCV(MultinomialNB(), SPACE, cv=3, halving=False, callbacks=[kill]).fit(corpus, client=client)
        assert len(lost) == 2 and all_gone(lost)
    assert found.best_params_ == expected.best_params_ and found.best_score_ == expected.best_score_
    assert np.array_equal(found.oof_proba_, expected.oof_proba_)
    assert np.array_equal(found.best_estimator_.state_.words, expected.best_estimator_.state_.words)
