"""The external shuffle is a permutation by key, whatever the memory and the batches."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdem_dist.corpus import sorted_rows
from sdem_dist.corpus.rows import KeyedRows, cut
from sdem_dist.corpus.sorted_rows import rows_between, write_pieces
from sdem_dist.corpus.spill import Spill, shuffle_keys


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
    return KeyedRows(keys, data, data.astype(np.uint16), indptr, labels, targets, ids, id_bytes)


def assert_same(found: KeyedRows, expected: KeyedRows) -> None:
    for name in ("keys", "data", "indices", "indptr", "labels", "targets", "ids", "id_bytes"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize("memory", [300, 3000, 10**7])
@pytest.mark.parametrize("names", [False, True])
def test_drains_by_ascending_key(tmp_path, memory, names):
    keys = shuffle_keys(4, 0, 400) >> np.uint64(1)
    spill = Spill(tmp_path, memory, ordered=False)
    for start in range(0, 400, 130):
        spill.add(rows(keys[start : start + 130], names))
    found = KeyedRows.concatenate(list(spill.drain()))
    assert_same(found, rows(np.sort(keys), names))
    assert [f for f in tmp_path.rglob("*") if f.is_file()] == []


@pytest.mark.parametrize("names", [False, True])
def test_documents_between_keys_come_back_from_pieces(tmp_path, monkeypatch, names):
    monkeypatch.setattr(sorted_rows, "PIECE_BYTES", 200)
    keys = np.sort(shuffle_keys(4, 0, 400) >> np.uint64(1))
    made = write_pieces(tmp_path, [rows(keys[:150], names), rows(keys[150:], names), rows([], names)])
    assert len(made) > 50
    for first, stop in ((0, 1 << 64), (int(keys[17]), int(keys[203])), (int(keys[5]) + 1, int(keys[5]) + 2)):
        found = rows_between(tmp_path, made, first, stop)
        wanted = [key for key in keys.tolist() if first <= key < stop]
        if wanted:
            assert_same(KeyedRows.concatenate(found), rows(wanted, names))
        else:
            assert sum(part.n_documents for part in found) == 0


def test_words_are_counted_alike_in_few_and_in_many_columns():
    words = np.random.default_rng(0).integers(0, 50, 300).astype(np.uint32)
    expected = np.stack(np.unique(words, return_counts=True))
    for n_features in (50, 10**6):
        np.testing.assert_array_equal(sorted_rows._frequency(words, n_features), expected)


@pytest.mark.parametrize("memory", [300, 10**7])
@pytest.mark.parametrize("ordered", [False, True])
def test_parts_are_those_of_the_sorted_documents(tmp_path, memory, ordered):
    keys = np.arange(400, dtype=np.uint64) if ordered else shuffle_keys(4, 0, 400) >> np.uint64(1)
    spill = Spill(tmp_path, memory, ordered=ordered)
    for start in range(0, 400, 130):
        part = rows(keys[start : start + 130], names=True)
        spill.add(part if start else replace(part, data=part.data.astype(np.uint16)))
    sizes = [1, 150, 2, 247]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda part: part(), spill.parts(sizes)))
    assert [part.n_documents for part in found] == sizes
    assert_same(KeyedRows.concatenate(found), rows(np.sort(keys), names=True))


def test_keys_that_share_leading_bits_still_sort(tmp_path):
    keys = np.random.default_rng(0).permutation(500)
    spill = Spill(tmp_path, 1000, ordered=False)
    spill.add(rows(keys))
    assert_same(KeyedRows.concatenate(list(spill.drain())), rows(np.arange(500)))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("times", [20, 100])
def test_memory_and_disk_are_bounded_and_documents_are_read_once(tmp_path, monkeypatch, times, ordered):
    limit, length, n_documents = 500_000, 160, 750 * times
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
    spill, n_bytes, given, most = Spill(tmp_path, limit, ordered=ordered), 0, 0, 0
    batch(keys[:1]).take(np.zeros(1, np.int64))  # numba is loaded before memory is measured
    tracemalloc.start()
    try:
        for start in range(0, n_documents, 250):
            rows = batch(keys[start : start + 250])
            n_bytes += rows.nbytes
            spill.add(rows)
        for rows in spill.drain():
            given += rows.nbytes
            most = max(most, given + sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_bytes > 0.9 * times * limit
    assert peak < 4 * limit
    assert n_read == [n_documents]
    assert most < 1.3 * n_bytes


@settings(max_examples=50)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_cut_gives_the_sizes_asked_for(incoming, wanted):
    total = sum(incoming)
    sizes = [n for n in np.diff([min(total, b) for b in np.cumsum([0, *wanted])]).tolist() if n]
    sizes += [total - sum(sizes)] if sum(sizes) < total else []
    borders = np.cumsum([0, *incoming])
    stream = (rows(np.arange(a, b), names=True) for a, b in pairwise(borders))
    pieces = list(cut(stream, sizes))
    assert [p.n_documents for p in pieces] == sizes
    assert_same(KeyedRows.concatenate(pieces), rows(np.arange(total), names=True))


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


def test_known_keys():
    # The order of a corpus is part of what a seed means: it must never change.
    assert shuffle_keys(0, 0, 2).tolist() == [9669442505924063346, 12855374104877926600]


def test_importing_corpus_does_not_import_zarr():
    code = "import sys, sdem_dist.corpus; sys.exit(any(m in sys.modules for m in ('zarr', 'dask', 'sklearn', 'numba')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
