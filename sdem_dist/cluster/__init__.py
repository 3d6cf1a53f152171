"""Dask clients: of processes on this machine, of a running scheduler, of batch jobs."""

from sdem_dist.cluster.client import CONFIGURATION, ENVIRONMENT, connected
from sdem_dist.cluster.jobs import batch_jobs, job_script

__all__ = ["CONFIGURATION", "ENVIRONMENT", "batch_jobs", "connected", "job_script"]
