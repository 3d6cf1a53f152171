"""Dask clients: of this machine's processes, of a scheduler somewhere, of batch jobs."""

from sdem_dist.cluster.client import ENVIRONMENT, configuration, connected
from sdem_dist.cluster.jobs import batch_jobs, job_script

__all__ = ["ENVIRONMENT", "batch_jobs", "configuration", "connected", "job_script"]
