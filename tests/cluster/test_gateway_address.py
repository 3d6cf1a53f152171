"""Addresses of gateways that hold a password: messages, which logs of jobs keep, do not repeat it."""

from __future__ import annotations

import pytest

from sdem_dist import ClusterError
from sdem_dist.cluster import connected


@pytest.mark.parametrize(
    ("rest", "n_workers"),
    [
        ("user:s3cret@127.0.0.1:9", 1),
        ("user:s3cret@127.0.0.1:9", None),
        ("user:s3/cret@127.0.0.1:9", 1),
        ("s3cret@127.0.0.1:9/clusters/x", 1),
        ("127.0.0.1:9/?token=s3cret", 1),
    ],
)
def test_credentials_in_an_address_are_refused_and_not_printed(rest, n_workers):
    with (
        pytest.raises(ClusterError, match="these belong in Dask's configuration") as caught,
        connected(f"https://{rest}", n_workers),
    ):
        pass
    assert "cret" not in str(caught.value)
