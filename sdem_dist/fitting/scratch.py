"""A Dask collection to train on: workers write it as a corpus that lasts as long as the training."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdem_dist.corpus import Corpus, write_corpus
from sdem_dist.errors import ClusterError
from sdem_dist.inputs.validation import refuse_address, seed_of

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.inputs.spec import Estimator


@contextmanager
def corpus_in_scratch(estimator: Estimator, X: Any, y: Any, sample_weight: Any, client: Client) -> Iterator[Corpus]:
    """Write a Dask collection into Dask's folder for temporary files, which all workers have to see; remove it in the end.

    Raises
    ------
    ValueError
        The estimator takes a target as a column of a table.
    ClusterError
        Workers do not see the folder.
    """
    from sdem_dist.engine.dask import DaskExecutor, scratch_folder

    refuse_address(client)
    target, dense = estimator.spec.target, estimator._layout == "dense"
    if dense and target == "numbers":
        raise ValueError(
            "a cluster takes from Dask collections no targets of a table: write a corpus with sdem_dist.write_corpus and "
            "pass that"
        )
    with tempfile.TemporaryDirectory(prefix="sdem-", dir=scratch_folder()) as folder:
        if not all(DaskExecutor(client).everywhere(_sees, folder)):
            raise ClusterError(
                f"not all workers see the folder {folder} of this machine: set Dask's temporary-directory "
                "(DASK_TEMPORARY_DIRECTORY) to one that they share, or write a corpus with write_corpus"
            )
        yield write_corpus(
            Path(folder, "corpus"),
            X,
            y if target == "labels" else None,
            targets=y if target == "numbers" else None,
            sample_weight=sample_weight,
            dense=dense,
            unlabelled=estimator.unlabelled if dense else None,
            client=client,
            random_state=seed_of(estimator.random_state),
        )


def _sees(folder: str) -> bool:
    return Path(folder).is_dir()
