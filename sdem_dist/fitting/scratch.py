"""A Dask collection to train on: workers write it as a corpus that lasts as long as the training."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdem_dist.corpus import Corpus, write_corpus
from sdem_dist.errors import ClusterError
from sdem_dist.inputs.validation import refuse_address, seed_of
from sdem_dist.storage import buckets
from sdem_dist.storage.places import is_url

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.inputs.spec import Estimator


@contextmanager
def corpus_in_scratch(estimator: Estimator, X: Any, y: Any, sample_weight: Any, client: Client) -> Iterator[Corpus]:
    """Write a Dask collection where the cluster's temporary files go, which all workers must see; remove it at last.

    Raises ValueError: the estimator takes a target as a column of a table.
    Raises ClusterError: workers do not see the folder.
    """
    from sdem_dist.engine.dask import DaskExecutor, scratch_folder

    refuse_address(client)
    target, dense = estimator.spec.target, estimator._layout == "dense"
    if dense and target == "numbers":
        raise ValueError(
            "a cluster cannot take the target of a table from Dask collections: write a corpus with sdem_dist.write_corpus "
            "and pass that"
        )
    with _temporary(scratch_folder()) as folder:
        if not is_url(folder) and not all(DaskExecutor(client).run_on_all_workers(_sees, folder)):
            raise ClusterError(
                f"not all workers see the folder {folder} of this machine: set sdem-dist.scratch of Dask's configuration "
                "(DASK_SDEM_DIST__SCRATCH) to one that they share, or to a URL such as s3://bucket/scratch"
            )
        yield write_corpus(
            f"{folder}/corpus",
            X,
            y if target == "labels" else None,
            targets=y if target == "numbers" else None,
            sample_weight=sample_weight,
            dense=dense,
            unlabelled=estimator.unlabelled if target == "labels" else None,
            client=client,
            random_state=seed_of(estimator.random_state),
        )


@contextmanager
def _temporary(scratch: str | None) -> Iterator[str]:
    """Yield a new folder in a folder or at a URL, and remove it."""
    if scratch is None or not is_url(scratch):
        with tempfile.TemporaryDirectory(prefix="sdem-", dir=scratch) as folder:
            yield folder
        return
    url = f"{scratch.rstrip('/')}/sdem-{secrets.token_hex(8)}"
    try:
        yield url
    finally:
        buckets.remove(url)


def _sees(folder: str) -> bool:
    return Path(folder).is_dir()
