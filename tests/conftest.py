"""Settings of all tests."""

import signal
from contextlib import suppress

import dask
import pytest
from hypothesis import settings
from reference.trained_bits import local_cluster

from sdem_dist.cluster.client import held_back

dask.config.set({"distributed.worker.profile.enabled": False})  # see `QUIET`
# The first call of a kernel compiles it, which no deadline for one example could allow for.
settings.register_profile("sdem", deadline=None, max_examples=50)
settings.load_profile("sdem")

# dask-jobqueue takes interrupts for itself when it is imported; here it is imported before a test module does so.
with suppress(ImportError), held_back():
    import dask_jobqueue  # noqa: F401

# Shells have their background jobs ignore interrupts, and tests send some.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def no_power_is_lost():
    """Waiting for the disk takes longer than many tests do otherwise, and what is killed loses nothing that was written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def client():
    """A Dask cluster of two workers within this process, whose scheduler tests can look into."""
    with local_cluster(2, processes=False) as (_, client):
        yield client


@pytest.fixture(scope="session")
def scheduler():
    """The address of a scheduler and a worker of this process, for commands: they speak TCP, as between machines."""
    from distributed import LocalCluster

    where = {"processes": False, "protocol": "tcp://", "dashboard_address": None}
    with LocalCluster(n_workers=1, threads_per_worker=1, **where) as cluster:
        yield cluster.scheduler_address
