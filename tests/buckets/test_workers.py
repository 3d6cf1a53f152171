"""Workers need nothing but the URL: they read the bucket by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from buckets.test_corpora import X, Y

from sdem_dist import MultinomialNB, open_corpus, write_corpus

distributed = pytest.importorskip("distributed")


def test_training_on_workers_from_a_bucket(bucket, proxy, tmp_path):
    write_corpus(f"{bucket}/c", X, Y, shard_documents=50)
    here = MultinomialNB(n_epochs=2, random_state=0).fit(write_corpus(tmp_path / "c", X, Y, shard_documents=50))
    with (
        distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        model = MultinomialNB(n_epochs=2, random_state=0)
        model.fit(open_corpus(f"{bucket}/c"), client=client, checkpoint=f"{bucket}/run")
    for ours, theirs in zip(model.state_, here.state_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
