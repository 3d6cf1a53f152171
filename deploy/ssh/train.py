"""Train on machines that you can reach by SSH without a password.

python train.py CORPUS MODEL INTERFACE HOST [HOST ...]

The first host runs the scheduler, each of the others a worker; list it twice to run both. INTERFACE is the network
between them (eth0; lo for this machine only), and nothing listens on other networks. Ports, users and keys are from
~/.ssh/config.
"""

from __future__ import annotations

import sys

import sdem_dist as sd
from sdem_dist.cluster import CONFIGURATION


def main(corpus: str, model: str, interface: str, *hosts: str) -> None:
    """Start a cluster on the hosts, train, and save."""
    import dask
    from distributed import Client, SSHCluster

    listen = {"interface": interface, "dashboard_address": "127.0.0.1:0"}
    with (
        dask.config.set(CONFIGURATION),
        SSHCluster(
            list(hosts),
            scheduler_options={"port": 0, **listen},
            worker_options={"nthreads": 1, **listen},
            remote_python=sys.executable,
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(1, timeout=120)
        sd.MultinomialNB(verbose=True).fit(sd.open_corpus(corpus), client=client).save(model)


if __name__ == "__main__":
    main(*sys.argv[1:])
