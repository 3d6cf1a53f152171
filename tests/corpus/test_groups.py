"""Groups of documents: folds keep them together and spread classes evenly, in memory, on disk and from the command."""

from __future__ import annotations

import csv
from copy import deepcopy

import numpy as np
import pytest
from cli.commands import run
from selection.conftest import made

from sdem_dist import CorpusError, CorpusSearchCV, IngestError, MultinomialNB, concat, ingest, open_corpus, write_corpus
from sdem_dist.corpus.folds import Folds, assign_folds, group_hashes
from sdem_dist.text import Reading

K = 4


@pytest.fixture(scope="module")
def documents():
    X, y, _ = made(400)
    return X, y, np.random.default_rng(0).integers(0, 60, 400)


def together(numbers, groups):
    return all(len(set(numbers[groups == group])) == 1 for group in np.unique(groups))


def test_groups_are_whole_and_classes_even(documents):
    _, y, groups = documents
    labels = np.searchsorted(["a", "b", "c"], y)
    numbers = assign_folds(labels, 400, K, 0, groups)
    assert together(numbers, groups)
    counts = np.array([np.bincount(labels[numbers == fold], minlength=3) for fold in range(K)])
    assert (np.ptp(counts, axis=0) <= 6).all() and np.ptp(counts.sum(axis=1)) <= 6
    assert not np.array_equal(numbers, assign_folds(labels, 400, K, 1, groups))
    renamed = np.array([f"author {group}" for group in 59 - groups])
    assert together(assign_folds(None, 400, K, 0, renamed), groups)


def test_one_large_group_takes_a_fold_for_itself():
    groups = np.r_[np.zeros(60, int), np.arange(1, 61)]
    numbers = assign_folds(np.arange(120) % 2, 120, 2, 0, groups)
    assert sorted(np.bincount(numbers)) == [60, 60] and len(set(numbers[:60])) == 1


def test_a_corpus_keeps_groups_and_folds_follow_them(documents, tmp_path):
    X, y, groups = documents
    corpus = write_corpus(tmp_path / "c.zarr", X, y, groups=groups, shard_documents=150)
    of_stored = groups[np.array(corpus.ids_of(0, 400))]
    assert np.array_equal(np.concatenate([corpus.groups(i) for i in range(3)]), group_hashes(of_stored))
    assert together(corpus.folds(K).numbers, of_stored)
    plain = write_corpus(tmp_path / "plain.zarr", X, y, shard_documents=150)
    assert plain.header.uid != corpus.header.uid
    given = plain.folds(K, groups=of_stored)
    assert together(given.numbers, of_stored) and not together(plain.folds(K).numbers, of_stored)
    again = deepcopy(given)  # as a worker gets it
    assert np.array_equal(again.numbers, given.numbers) and again.train(0).cache_key == given.train(0).cache_key
    assert given.train(0).cache_key != plain.folds(K).train(0).cache_key
    with pytest.raises(CorpusError, match="--group"):
        plain.groups(0)
    named = [f"d{i}" for i in range(400)]
    by_name = write_corpus(tmp_path / "named.zarr", X, y, ids=named, groups=groups)
    assert together(by_name.folds(K).numbers, groups[[int(name[1:]) for name in by_name.ids_of(0, 400)]])
    parts = [(X[i:j], y[i:j], None, None, None, groups[i:j]) for i, j in ((0, 130), (130, 400))]
    assert write_corpus(tmp_path / "parts.zarr", parts, shard_documents=150).header.uid == corpus.header.uid


def test_a_search_and_its_rows_in_memory(documents):
    X, y, groups = documents
    found = CorpusSearchCV(MultinomialNB(), {"step": [0.1]}, cv=K, n_jobs=1, refit=False).fit(X, y, groups=groups)
    assert together(found.oof_folds_, groups)
    torn = CorpusSearchCV(MultinomialNB(), {"step": [0.1]}, cv=K, n_jobs=1, refit=False).fit(X, y)
    assert not together(torn.oof_folds_, groups)


def test_the_command_keeps_a_column(documents, tmp_path):
    X, y, groups = documents
    with (tmp_path / "posts.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["label", "author", "text"])
        rows.writerows(
            [label, f"a{g}", " ".join(f"w{w}" for w in row.indices)] for label, g, row in zip(y, groups, X, strict=True)
        )
    ended = run("ingest", str(tmp_path / "posts.csv"), str(tmp_path / "c.zarr"), "--group", "author")
    assert ended.exit_code == 0, ended.output
    corpus = open_corpus(tmp_path / "c.zarr")
    of_stored = groups[np.array(corpus.ids_of(0, 400))]
    assert np.array_equal(corpus.groups(0), group_hashes([f"a{g}" for g in of_stored[: len(corpus.groups(0))]]))
    assert together(corpus.folds(K).numbers, of_stored)
    ended = run("ingest", str(tmp_path / "posts.csv"), str(tmp_path / "x.zarr"), "--group", "nobody")
    assert ended.exit_code == 1 and "nobody" in ended.output and "author" in ended.output
    with pytest.raises(
        IngestError, match=r"posts\.csv, line 1: there is no column 'nobody'; the columns are .* with --group"
    ):
        ingest(tmp_path / "posts.csv", tmp_path / "x.zarr", reading=Reading(group="nobody"))
    (tmp_path / "posts.tsv").write_text("a\tb\n")
    for column, said in (("who", "it has no header"), ("7", "2 columns, so there is no column 7 (from 0)")):
        ended = run("ingest", str(tmp_path / "posts.tsv"), str(tmp_path / "x.zarr"), "--group", column)
        assert ended.exit_code == 1 and said in ended.output and "column_" not in ended.output


def test_mistakes(documents, tmp_path):
    X, y, groups = documents
    with pytest.raises(CorpusError, match="groups"):
        write_corpus(tmp_path / "c.zarr", X, y, groups=groups[:5])
    corpus = write_corpus(tmp_path / "plain.zarr", X, y)
    with pytest.raises(ValueError, match="400 documents"):
        Folds(corpus, K, groups=groups[:5])
    with pytest.raises(ValueError, match="3 groups cannot be cut into 4 folds"):
        Folds(corpus, K, groups=groups % 3).numbers  # noqa: B018


def test_labelled_documents_keep_their_groups(documents, tmp_path):
    X, y, groups = documents
    hidden = np.where(np.random.default_rng(1).random(400) < 0.5, y, "")
    corpus = write_corpus(tmp_path / "c.zarr", X, hidden, unlabelled="", groups=groups, shard_documents=150)
    labelled = corpus.labelled()
    numbers = Folds(labelled, K).numbers
    names = corpus.all_groups()[labelled.rows]
    assert len(numbers) == labelled.n_documents < 400 and np.array_equal(labelled.all_groups(), names)
    assert together(numbers, names) and len(set(names)) > K
    assert write_corpus(tmp_path / "none.zarr", X, hidden, unlabelled="").labelled().all_groups() is None


@pytest.mark.parametrize("grouped", [(True, True), (True, False), (False, True)])
def test_joined_corpora_keep_their_groups(tmp_path, grouped):
    X, y = np.ones((12, 3), int), ["a", "b", ""] * 4
    names = [[f"{part}{i // 3}" for i in range(12)] if kept else None for part, kept in enumerate(grouped)]
    parts = [
        write_corpus(tmp_path / str(i), X, y, groups=groups, unlabelled="", shuffle=False)
        for i, groups in enumerate(names)
    ]
    joined = concat(parts)
    groups = joined.all_groups()
    for part, kept, own in zip(parts, grouped, np.split(groups, 2), strict=True):
        if kept:
            assert np.array_equal(own, part.all_groups()) and len(set(own)) == 4
        else:  # each document is a group of its own
            assert len(set(own)) == 12
    assert together(joined.folds(4).numbers, groups)
    labelled = joined.labelled()
    assert np.array_equal(labelled.all_groups(), groups[labelled.rows])
