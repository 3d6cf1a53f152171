"""Clusters of a Dask Gateway: a new one that ends with the run, or one that is there already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from sdem_dist import compat
from sdem_dist.cluster.interrupts import ended_by_signals
from sdem_dist.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client

CLUSTERS = "/clusters/"
"""What stands between a gateway's address and the name of one of its clusters, as in the links to its dashboards."""


@contextmanager
def gateway_client(address: str, n_workers: int | None) -> Iterator[Client]:
    """Yield a client of a gateway's cluster.

    How to sign in, and the options of a new cluster, are Dask's configuration below ``gateway``.

    `address`: of the gateway, such as ``https://gateway.example.org``: a new cluster is started, and ended after. Or
    of one of its clusters, ``https://gateway.example.org/clusters/NAME``, which is left as it is.
    `n_workers`: how many workers the new cluster has.
    Raises ClusterError: the gateway does not answer or refuses, dask-gateway is missing, the address holds credentials,
    or `n_workers` is given with a cluster that is there already, or missing with a new one.
    """
    if "@" in address or "?" in address:  # messages name the address, and logs of jobs keep messages
        raise ClusterError(
            f"a URL of {address.partition('://')[0]}:// has more than the names of a gateway and a cluster, perhaps "
            "credentials: these belong in Dask's configuration (gateway.auth)"
        )
    url, _, name = address.rstrip("/").partition(CLUSTERS)
    if bool(name) == (n_workers is not None):
        raise ClusterError(
            f"{address} is a cluster that has its workers: leave out their number"
            if name
            else f"{address} is a Dask Gateway: say how many workers its new cluster has (--workers, n_workers), or add "
            f"{CLUSTERS}NAME for a cluster that is there"
        )
    gateways = _dask_gateway()
    with ended_by_signals(), ExitStack() as ends:
        try:
            known = gateways.GatewayCluster
            cluster = known.from_name(name, address=url) if name else known(address=url)
            ends.enter_context(cluster)
            if n_workers is not None:
                cluster.scale(n_workers)
            client = ends.enter_context(cluster.get_client(set_as_default=False))
        except _refusals(gateways) as error:
            raise ClusterError(
                f"the Dask Gateway at {url} gave no cluster ({type(error).__name__}: {error}); check the address, "
                "how to sign in (gateway.auth in Dask's configuration), and the gateway's log"
            ) from error
        yield client


def _dask_gateway() -> ModuleType:
    try:
        import dask_gateway
    except ImportError as error:
        raise ClusterError('a Dask Gateway needs dask-gateway: pip install "sdem_dist[gateway]"') from error
    compat.close_gateways_by_hand(dask_gateway.Gateway)
    return dask_gateway


def _refusals(gateways: ModuleType) -> tuple[type[Exception], ...]:
    """Return what dask-gateway raises: its own errors, those of aiohttp, which comes with it, and Python's."""
    import aiohttp

    return OSError, ValueError, gateways.GatewayClusterError, gateways.GatewayServerError, aiohttp.ClientError
