"""Writing a corpus from a dask array: workers compute its blocks, sort and write them, and nothing is gathered."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sdem_dist.corpus.batches import canonical_csr
from sdem_dist.corpus.collect import collect
from sdem_dist.corpus.labels import LabelEncoder
from sdem_dist.corpus.layout import ClassLabel
from sdem_dist.corpus.reader import Corpus
from sdem_dist.corpus.sorted_rows import SortedDocuments, write_rows
from sdem_dist.errors import CorpusError
from sdem_dist.storage.kept import once
from sdem_dist.storage.numbers import JsonObject
from sdem_dist.storage.places import refuse_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed import Client


def write_dask_array(
    path: str | Path,
    X: Any,
    y: Any,
    client: Client,
    *,
    classes: Sequence[object] | None,
    vocabulary: Sequence[str] | None,
    vectorizer: JsonObject | None,
    made_by: JsonObject | None,
    weighted: bool | None,
    seed: int | None,
    shard_documents: int | None,
    overwrite: bool,
) -> Corpus:
    """Write the rows of a dask array as a corpus, on the workers of a client; see `sdem_dist.corpus.write_corpus`.

    Raises
    ------
    CorpusError
        `X` is no dask array, `y` is not cut as it is, or a block does not fit.
    """
    from sdem_dist.corpus.contents import destination, reopened, write_contents
    from sdem_dist.engine.dask import DaskExecutor
    from sdem_dist.engine.ordered import in_order

    if not hasattr(X, "to_delayed") or not hasattr(X, "rechunk"):
        raise CorpusError(f"a client's workers write dask arrays, not a {type(X).__name__}: leave client out")
    refuse_url(str(path), "with client, corpora are folders", CorpusError)
    executor, blocks = DaskExecutor(client), X.rechunk({1: -1}).to_delayed().ravel()
    with destination(path, overwrite) as (place, scratch):
        labels = _label_blocks(X, y)
        jobs = (
            (
                scratch / f"block-{i}",
                i,
                client.compute(block),
                client.compute(own) if hasattr(own, "dask") else own,
                weighted,
            )
            for i, (block, own) in enumerate(zip(blocks, labels, strict=True))
        )
        found = list(in_order(executor, store_block, jobs))
        names, all_weighted = (
            _classes(found, classes),
            any(block["weights"] for block in found) if weighted is None else weighted,
        )
        widths = {block["n_features"] for block in found}
        if len(widths) > 1:
            raise CorpusError(f"the blocks of X have different numbers of columns: {sorted(widths)}")
        starts = list(accumulate((block["n_documents"] for block in found), initial=0))
        some = [i for i, block in enumerate(found) if block["n_documents"]]
        if not some:
            raise CorpusError("there are no documents; a corpus has one or more")
        folders = [scratch / f"rows-{i}" for i in some]
        arranged = list(
            in_order(
                executor,
                sort_block,
                (
                    (scratch / f"block-{i}", folder, names or None, all_weighted, seed, starts[i])
                    for i, folder in zip(some, folders, strict=True)
                ),
            )
        )
        counts = zip(*(rows["class_counts"] for rows in arranged), strict=True)
        documents = SortedDocuments(
            n_documents=starts[-1],
            n_features=widths.pop(),
            n_nonzeros=sum(rows["n_nonzeros"] for rows in arranged),
            classes=names,
            class_counts=tuple(map(sum, counts)),
            weighted=all_weighted,
            dense=False,
            n_targets=0,
            folders=folders,
            seed=seed,
            scratch=scratch,
        )
        header = write_contents(
            place,
            documents,
            partial(documents.write_shards, executor, Path(place)),
            vocabulary=vocabulary,
            vectorizer=vectorizer,
            made_by=made_by,
            shard_documents=shard_documents,
        )
    return reopened(path, header)


def _label_blocks(X: Any, y: Any) -> Iterator[Any]:
    """Yield the labels of each block of rows: delayed ones of a dask array, or arrays in memory."""
    n_blocks = X.numblocks[0]
    if y is None:
        yield from [None] * n_blocks
        return
    if hasattr(y, "to_delayed"):
        if not np.array_equal(y.chunks[0], X.chunks[0], equal_nan=True):
            raise CorpusError(
                f"y is cut into blocks of {y.chunks[0]} and X into blocks of {X.chunks[0]}: cut both alike, y.rechunk"
            )
        yield from y.to_delayed().ravel()
        return
    labels = np.asarray(y)
    if np.isnan(X.shape[0]):
        raise CorpusError("the blocks of X have no known length, and y is no dask array: X.compute_chunk_sizes() first")
    if len(labels) != X.shape[0]:
        raise CorpusError(f"X has {X.shape[0]} documents and y has {len(labels)}")
    yield from np.split(labels, np.cumsum(X.chunks[0])[:-1])


def _classes(found: Sequence[JsonObject], classes: Sequence[object] | None) -> tuple[ClassLabel, ...]:
    labelled = {block["labelled"] for block in found if block["n_documents"]}
    if not labelled or labelled == {False}:
        return ()
    encoder = LabelEncoder(classes)
    for block in found:
        for name in block["names"]:  # one by one: an array would make texts of mixed kinds
            column = np.empty(1, object)
            column[0] = name
            encoder.encode(column, 1, 0)
    return encoder.finish()[0]


def store_block(folder: Path, number: int, X: Any, y: Any, weighted: bool | None) -> JsonObject:
    """Write down a block of rows, checked; return what is known of it."""

    def stored(partial_folder: Path) -> JsonObject:
        try:
            data, indices, indptr, n_features = canonical_csr(X, 0)
            if weighted is False and data.dtype.kind == "f":
                raise CorpusError("weighted=False, but its entries are not all counts")
            encoder = LabelEncoder(None)
            codes = encoder.encode(y, len(indptr) - 1, 0)
        except CorpusError as error:
            raise CorpusError(f"block {number} of X (from 0), documents counted within it: {error}") from error
        names, positions = encoder.finish()
        for name, array in (("data", data), ("indices", indices), ("indptr", indptr), ("codes", positions[codes])):
            np.save(partial_folder / f"{name}.npy", array)
        return {
            "n_documents": len(codes),
            "n_features": n_features,
            "weights": data.dtype.kind == "f",
            "labelled": encoder.labelled,
            "names": list(names),
        }

    return once(folder, stored)


def sort_block(
    block: Path, folder: Path, classes: tuple[ClassLabel, ...] | None, weighted: bool, seed: int | None, first: int
) -> JsonObject:
    """Write the rows of a block in the order of the corpus; `first` is the position of the first of them."""
    import json

    from sdem_dist.corpus.contents import MEMORY_LIMIT
    from sdem_dist.storage.kept import SUMMARY

    def sorted_rows(partial_folder: Path) -> JsonObject:
        summary = json.loads((block / SUMMARY).read_text(encoding="utf-8"))
        data, indices, indptr, codes = (np.load(block / f"{n}.npy") for n in ("data", "indices", "indptr", "codes"))
        X = sp.csr_array((data, indices, indptr), shape=(len(codes), summary["n_features"]))
        y = None
        if classes is not None:
            names = np.empty(len(summary["names"]), object)
            names[:] = summary["names"]
            y = names[codes]
        spill = partial_folder / "spill"
        spill.mkdir()
        return write_rows(
            partial_folder,
            collect([(X, y, None, None)], spill, MEMORY_LIMIT, classes, weighted or None, seed=seed, first=first),
        )

    return once(folder, sorted_rows)
