"""A real server of S3 on loopback, spoken to over HTTP."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from buckets.proxy import SECRET, Proxy

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _nothing_kept():
    """Corpora of other tests have the same content, so their shards would be at hand."""
    from sdem_dist.byte_cache import shard_cache

    shard_cache.clear()


@pytest.fixture(scope="session")
def s3_server():
    pytest.importorskip("obstore")
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield server.get_host_and_port()
    server.stop()


@pytest.fixture
def proxy(s3_server):
    made = Proxy(s3_server)
    yield made
    made.close()


@pytest.fixture
def bucket(s3_server, proxy, monkeypatch):
    """The URL of an empty folder in a bucket, behind the proxy; the environment has credentials for it."""
    import boto3

    from sdem_dist.storage import buckets

    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIDSECRET",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": proxy.url,
    }.items():
        monkeypatch.setenv(name, value)
    quick = {"max_retries": 6, "backoff": {"init_backoff": timedelta(milliseconds=5), "base": 2}}
    monkeypatch.setitem(buckets.SETTINGS, "retry_config", {**quick, "retry_timeout": timedelta(seconds=20)})
    boto3.client("s3", endpoint_url="http://{}:{}".format(*s3_server), region_name="us-east-1").create_bucket(
        Bucket="bucket"
    )
    return f"s3://bucket/{next(_numbers)}"
