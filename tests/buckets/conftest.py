"""Buckets of real servers on loopback, spoken to over HTTP."""

import itertools
from contextlib import ExitStack
from datetime import timedelta

import pytest
from buckets.proxy import Proxy
from buckets.servers import KINDS

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _nothing_kept():
    """Corpora of other tests have the same content, so their shards would be at hand."""
    from sdem_dist.documents import shard_cache

    shard_cache.discard(lambda key: True)


@pytest.fixture(scope="session")
def servers():
    """What returns the server of a scheme, started when it is first asked for."""
    pytest.importorskip("obstore")
    with ExitStack() as ends:
        started = {}

        def server(scheme):
            if scheme not in started:
                started[scheme] = ends.enter_context(KINDS[scheme]())
            return started[scheme]

        yield server


@pytest.fixture
def scheme(request):
    """Which kind of bucket; see `servers.everywhere`."""
    return getattr(request, "param", "s3")


@pytest.fixture
def server(servers, scheme):
    return servers(scheme)


@pytest.fixture
def proxy(server):
    made = Proxy(server)
    yield made
    made.close()


@pytest.fixture
def bucket(scheme, server, proxy, monkeypatch, tmp_path_factory):
    """The URL of an empty folder in a bucket, behind the proxy; the environment has credentials for it."""
    from sdem_dist.storage import buckets

    for name, value in server.environment(proxy.url, tmp_path_factory.mktemp("account")).items():
        monkeypatch.setenv(name, value)
    quick = {"max_retries": 6, "backoff": {"init_backoff": timedelta(milliseconds=5), "base": 2}}
    monkeypatch.setitem(buckets.SETTINGS, "retry_config", {**quick, "retry_timeout": timedelta(seconds=20)})
    monkeypatch.setitem(buckets.SETTINGS, "client_options", {**buckets.SETTINGS["client_options"], "allow_http": True})
    return f"{scheme}://bucket/{next(_numbers)}"
