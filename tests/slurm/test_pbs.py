"""PBS jobs, through the commands that Debian's slurm-wlm-torque puts over Slurm."""

from __future__ import annotations

import shutil

import pytest
from faults.clusters import is_end_of, model, wait_until
from reference.trained_bits import bits
from slurm.conftest import ask

from sdem_dist import ClusterError
from sdem_dist.cluster import batch_jobs


@pytest.fixture(autouse=True)
def _qsub():
    if shutil.which("qsub") is None:
        pytest.skip("there is no qsub: Debian's slurm-wlm-torque has one over Slurm")


def test_a_job_is_deleted_in_the_middle_of_an_epoch(corpus, undisturbed, cluster_file):
    file = cluster_file(system="pbs", **{"resource-spec": "nodes=1:ppn=1,mem=600mb"})
    said = []
    with batch_jobs(file, say=said.append) as client:
        client.wait_for_workers(2, timeout=60)
        jobs = [job.job_id for job in client.cluster.workers.values()]

        def callback(event):
            if is_end_of(event, 0, 1):
                ask("qdel", jobs[0])
                wait_until(lambda: len(client.nthreads()) == 1, "its worker is gone")

        assert bits(model().fit(corpus, client=client, callbacks=[callback])) == undisturbed
        wait_until(lambda: len(client.nthreads()) == 2, "another job has brought another worker", 60)
    assert any(jobs[0] in line and "job_state = C" in line for line in said)


def test_more_memory_than_there_is(cluster_file):
    file = cluster_file(system="pbs", **{"resource-spec": "nodes=1:ppn=1,mem=900gb"})
    with pytest.raises(ClusterError, match="Requested node configuration is not available"), batch_jobs(file):
        pass
