"""Dask clients: of this machine's processes, of a scheduler somewhere, of batch jobs."""

from __future__ import annotations

from sdem_dist.cluster.client import ALLOCATOR, connected
from sdem_dist.cluster.jobs import batch_jobs
from sdem_dist.cluster.options import job_script

__all__ = ["ALLOCATOR", "batch_jobs", "connected", "job_script"]
