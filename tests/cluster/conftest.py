"""A Dask cluster of processes of their own."""

import pytest

from sdem_dist.cluster import connected


@pytest.fixture(scope="module")
def client():
    with connected(None, 2) as client:
        yield client
