"""The external shuffle is a permutation by key, whatever the memory and the batches."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdem_dist.corpus import shuffle
from sdem_dist.corpus.shuffle import KeyedRows, SortedRows, alike, keys_of_ranks, shuffle_keys


def rows(keys, names=None) -> KeyedRows:
    """Documents that hold their own key, so that mixing them up shows."""
    keys = np.asarray(keys, np.uint64)
    lengths = (keys % np.uint64(4)).astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    data = np.repeat(keys % np.uint64(200), lengths).astype(np.uint8)
    ids, id_bytes = keys.astype(np.int64), None
    if names:
        words = [str(k).encode() for k in keys.tolist()]
        ids, id_bytes = np.cumsum([0, *map(len, words)]), np.frombuffer(b"".join(words), np.uint8)
    targets = np.outer(keys, [0.5, 1.0]) if names else np.empty((len(keys), 0))
    labels = (keys % np.uint64(7)).astype(np.int32)
    groups = keys * np.uint64(3) if names else None
    return KeyedRows(keys, data, data.astype(np.uint16), indptr, labels, targets, ids, id_bytes, groups)


def assert_same(found: KeyedRows, expected: KeyedRows) -> None:
    for name in ("keys", "data", "indices", "indptr", "labels", "targets", "ids", "id_bytes", "groups"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def by_key_order(parts) -> KeyedRows:
    return KeyedRows.gathered(alike(parts), np.argsort(np.concatenate([part.keys for part in parts])))


def collected(path, memory, keys, names=False) -> SortedRows:
    """Documents that come in batches of different dtypes, beyond some memory in a file."""
    by_key = SortedRows(path, memory)
    for start in range(0, len(keys), 130):
        part = rows(keys[start : start + 130], names)
        by_key.add(part if start else replace(part, data=part.data.astype(np.uint16)))
    return by_key


@pytest.mark.parametrize("memory", [300, 3000, 10**7])
@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_documents_between_keys_come_back_from_memory_and_files(tmp_path, monkeypatch, memory, names, ordered):
    monkeypatch.setattr(shuffle, "PIECE_BYTES", 200)
    keys = np.arange(400, dtype=np.uint64) if ordered else shuffle_keys(4, 0, 400) >> np.uint64(1)
    by_key, ascending = collected(tmp_path / "rows", memory, keys, names), np.sort(keys)
    reopened = SortedRows(tmp_path / "rows", pieces=json.loads(json.dumps(by_key.pieces)))
    first, last = int(ascending[17]), int(ascending[203])
    for start, stop in ((0, 1 << 64), (first, last), (first + 1, first + 1), (last, 1 << 64)):
        wanted = [key for key in ascending.tolist() if start <= key < stop]
        for source in (by_key, reopened)[: 1 + (memory == 300)]:  # less than a batch: all is in the file
            parts = [part for part in source.between(start, stop) if part.n_documents]
            if wanted:
                assert_same(by_key_order(parts), rows(wanted, names))
            else:
                assert parts == []


def test_threads_may_ask_for_different_documents(tmp_path):
    keys = shuffle_keys(4, 0, 400) >> np.uint64(1)
    by_key, borders = collected(tmp_path / "rows", 10**7, keys), [0, *np.sort(keys)[[1, 151, 153]].tolist(), 1 << 64]
    with ThreadPoolExecutor(2) as pool:
        parts = [part for found in pool.map(by_key.between, borders[:-1], borders[1:]) for part in found]
    assert [part.n_documents for part in parts] == [1, 150, 2, 247]
    assert_same(by_key_order(parts), rows(np.sort(keys)))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("times", [10, 40])
def test_memory_is_bounded_and_documents_are_read_few_times(tmp_path, monkeypatch, times, ordered):
    limit, length, n_documents = 500_000, 160, 750 * times
    monkeypatch.setattr(shuffle, "PIECE_BYTES", 20_000)
    read, n_read = KeyedRows.read, [0]

    def counted(*how) -> KeyedRows:
        found = read(*how)
        n_read[0] += found.n_documents
        return found

    def batch(keys) -> KeyedRows:
        n, entries = len(keys), np.zeros(len(keys) * length, np.uint16)
        ends = np.arange(0, n * length + 1, length)
        return KeyedRows(keys, entries, entries, ends, np.zeros(n, np.int32), np.empty((n, 0)), np.zeros(n, np.int64))

    monkeypatch.setattr(KeyedRows, "read", counted)
    keys = np.arange(n_documents, dtype=np.uint64) if ordered else shuffle_keys(0, 0, n_documents)
    bounds = [*np.sort(keys)[:: n_documents // times].tolist(), 1 << 64]
    by_key, n_bytes = SortedRows(tmp_path / "rows", limit), 0
    KeyedRows.gathered([batch(keys[:1])], np.zeros(1, np.int64))  # numba is loaded before memory is measured
    tracemalloc.start()
    try:
        for start in range(0, n_documents, 250):
            part = batch(keys[start : start + 250])
            n_bytes += part.nbytes
            by_key.add(part)
        n_returned = sum(part.n_documents for pair in pairwise(bounds) for part in by_key.between(*pair))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_returned == n_documents
    assert n_bytes > 0.9 * times * limit
    assert peak < 4 * limit, "with four times the documents, too"
    assert n_read[0] < 8 * n_documents
    assert (tmp_path / "rows").stat().st_size < 1.1 * n_bytes, "each is written once"


@given(st.integers(-(2**65), 2**65), st.integers(0, 10**12), st.integers(0, 50), st.integers(0, 50))
def test_keys_depend_on_the_position_only(seed, start, n, m):
    whole = shuffle_keys(seed, start, start + n + m)
    parts = shuffle_keys(seed, start, start + n), shuffle_keys(seed, start + n, start + n + m)
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    assert len(set(whole.tolist())) == n + m


def test_keys_are_spread_evenly():
    keys = shuffle_keys(0, 0, 64_000)
    buckets = np.bincount((keys >> np.uint64(58)).astype(int), minlength=64)
    assert abs(buckets - 1000).max() < 200  # over six standard deviations
    order = np.argsort(keys)
    assert abs(np.corrcoef(order, np.arange(64_000))[0, 1]) < 0.03


@pytest.mark.parametrize("n", [1, 7, 5000])
def test_keys_of_ranks_are_those_of_all_keys_sorted(monkeypatch, n):
    monkeypatch.setattr(shuffle, "KEYS_AT_A_TIME", 999)
    ranks = sorted({0, n // 3, n // 2, n - 1})
    assert keys_of_ranks(5, n, ranks) == np.sort(shuffle_keys(5, 0, n))[ranks].tolist()
    assert keys_of_ranks(5, n, []) == []


def test_known_keys():
    # The order of a corpus is part of what a seed means: it must never change.
    assert shuffle_keys(0, 0, 2).tolist() == [9669442505924063346, 12855374104877926600]


def test_importing_corpus_does_not_import_zarr():
    code = "import sys, sdem_dist.corpus; sys.exit(any(m in sys.modules for m in ('zarr', 'dask', 'sklearn', 'numba')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
