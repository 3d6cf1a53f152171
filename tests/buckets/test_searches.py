"""Searches whose corpus and checkpoints are in a bucket, on workers: as with files, here."""

import numpy as np
from buckets.needs import needs_obstore
from buckets.test_workers import client

from sdem_dist import (
    CorpusSearchCV,
    GaussianNB,
    KMeans,
    LDAClassifier,
    MultinomialNB,
    SdemMixtureClassifier,
    SupervisedLDARegressor,
    open_corpus,
    write_corpus,
)
from sdem_dist.storage import buckets

__all__ = ["client"]
pytestmark = needs_obstore
RNG = np.random.default_rng(0)
Y = RNG.integers(3, size=240)
X = RNG.poisson(0.3 + 2.0 * (np.arange(12) % 3 == Y[:, None])).astype(float)
SEARCHES = {
    "words": (MultinomialNB(), {"loss": ["nll"]}, {}),
    "topics": (LDAClassifier(n_components=2, n_epochs=2), {"n_components": [1]}, {}),
    "mixture": (SdemMixtureClassifier(1, n_epochs=2), {"loss": ["hinge"]}, {"dense": True}),
    "table": (GaussianNB(n_epochs=2), {"loss": ["nll"]}, {"dense": True}),
    "clusters": (KMeans(3, n_epochs=2), {"n_clusters": [2]}, {}),
    "numbers": (SupervisedLDARegressor(3, n_epochs=2), {"n_components": [2]}, {"targets": Y * 1.0}),
}


def searched(name, corpus, **more):
    estimator, space, _ = SEARCHES[name]
    return CorpusSearchCV(estimator, space, cv=2, n_jobs=1, n_trials=None).fit(open_corpus(corpus), **more)


def test_all_is_in_a_bucket(bucket, client, tmp_path):
    for name, (_, _, how) in SEARCHES.items():
        y = None if "targets" in how else Y
        for place in (tmp_path / name, f"{bucket}/{name}"):
            write_corpus(place, X, y, shard_documents=80, **how)
        here = searched(name, tmp_path / name)
        there = searched(name, f"{bucket}/{name}", client=client, checkpoint=f"{bucket}/run {name}")
        assert buckets.below(f"{bucket}/run {name}")
        again = searched(name, f"{bucket}/{name}", client=client, checkpoint=f"{bucket}/run {name}", resume=True)
        for one in (there, again):
            assert one.best_params_ == here.best_params_, name
            for a, b in zip(one.trials_, here.trials_, strict=True):
                assert a.error == b.error == ""
                for metric, scores in b.scores.items():
                    np.testing.assert_array_equal(a.scores[metric], scores, err_msg=f"{name} {metric}")
