"""Bytes a nonzero and nonzeros decoded a second for several codecs, through zarr, on documents of a corpus.

Run: ``python tests/benchmarks/codecs.py CORPUS.zarr...``; medians over repetitions, one thread, files in memory's cache.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import zarr
from zarr.codecs import BloscCodec, ZstdCodec

from sdem_dist import open_corpus
from sdem_dist.storage.arrays import stored_bytes

CODECS = {
    "none": None,
    "zstd 1": ZstdCodec(level=1),
    "zstd 3": ZstdCodec(level=3),
    "blosc lz4 shuffle": BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"),
    "blosc lz4 bitshuffle": BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle"),
    "blosc lz4hc shuffle": BloscCodec(cname="lz4hc", clevel=5, shuffle="shuffle"),
    "blosc zstd 5 shuffle": BloscCodec(cname="zstd", clevel=5, shuffle="shuffle"),
    "blosc zstd 5 bitshuffle": BloscCodec(cname="zstd", clevel=5, shuffle="bitshuffle"),
}


def main() -> None:
    """Print one line for each codec and corpus."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="+", type=Path)
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=5)
    o = parser.parse_args()
    for path in o.corpora:
        corpus = open_corpus(path)
        shards = [corpus.read_shard(s) for s in range(min(o.shards, len(corpus.header.shards)))]
        n_nonzeros = sum(s.n_nonzeros for s in shards)
        print(f"{path.name}: {shards[0].indices.dtype} indices, {shards[0].data.dtype} data, {n_nonzeros:,} nonzeros")
        for name, codec in CODECS.items():
            with tempfile.TemporaryDirectory() as folder:
                root = zarr.create_group(folder)
                for number, shard in enumerate(shards):
                    for array in ("data", "indices", "indptr"):
                        values = np.ascontiguousarray(getattr(shard, array))
                        root.create_array(
                            f"{number}/{array}", data=values, chunks=values.shape, compressors=codec, filters=None
                        )
                seconds = []
                for _ in range(o.repeat):
                    started = time.perf_counter()
                    for number in range(len(shards)):
                        for array in ("data", "indices", "indptr"):
                            root[f"{number}/{array}"][...]
                    seconds.append(time.perf_counter() - started)
                rate = n_nonzeros / statistics.median(seconds) / 1e6
                print(f"  {name:24s} {stored_bytes(folder) / n_nonzeros:.2f} B a nonzero, {rate:4.0f} M nonzeros/s")


if __name__ == "__main__":
    main()
