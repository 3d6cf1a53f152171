"""An ingested corpus holds exactly what scikit-learn makes of all documents at once, however it was cut and spread."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file
from sklearn.feature_extraction.text import CountVectorizer
from text.sources import DOCUMENTS, compressed, rows_in_source_order, written

from sdem_dist.corpus import open_corpus
from sdem_dist.errors import IngestError
from sdem_dist.text import Reading, VectorizerSettings, count_texts, ingest
from sdem_dist.text.patterns import expression_of

WORDS = st.sampled_from(["a", "ab", "b", "bb", "ba", "é", "東", "zz"])
DOCUMENT = st.tuples(st.sampled_from(["x", "y", "10", "2"]), st.lists(WORDS, max_size=6).map(" ".join))


@hypothesis_settings(deadline=None, max_examples=25)
@given(
    documents=st.lists(DOCUMENT, min_size=1, max_size=12),
    block=st.integers(1, 13),
    min_df=st.sampled_from([1, 2, 0.3]),
    max_df=st.sampled_from([1.0, 0.7, 3]),
    max_features=st.sampled_from([None, 1, 3]),
    ngrams=st.sampled_from([(1, 1), (1, 2), (2, 2)]),
)
def test_vocabulary_and_counts_are_count_vectorizers(documents, block, min_df, max_df, max_features, ngrams):
    limits = {"min_df": min_df, "max_df": max_df, "max_features": max_features}
    limits |= {"ngram_range": ngrams, "token_pattern": r"\S+"}
    reference = CountVectorizer(**limits)
    try:
        expected = reference.fit_transform([text for _, text in documents])
    except ValueError:
        expected = None
    with tempfile.TemporaryDirectory() as folder:
        source, path = written(Path(folder, "docs.tsv"), documents), Path(folder, "corpus")
        arguments = ([source], path, VectorizerSettings(**limits))
        if expected is None:
            np.testing.assert_raises(IngestError, ingest, *arguments, block_documents=block, n_jobs=1)
            assert [p.name for p in Path(folder).iterdir()] == ["docs.tsv"]
            return
        report = ingest(*arguments, block_documents=block, n_jobs=1)
        found, labels = rows_in_source_order(path)
        assert open_corpus(path).vocabulary() == reference.get_feature_names_out().tolist()
    assert (found != expected).nnz == 0 and labels == [label for label, _ in documents]
    assert report.n_documents == len(documents) and report.n_nonzeros == expected.nnz
    assert report.n_empty == int((np.diff(expected.indptr) == 0).sum())


@pytest.mark.parametrize("settings", [
    VectorizerSettings(ngram_range=(1, 2)),
    VectorizerSettings(stem="porter", stop_words="english", ngram_range=(1, 2), min_df=2),
    VectorizerSettings(kind="hashing", n_features=32),
    VectorizerSettings(features="words+characters"),
], ids=["n-grams", "stems", "hashing", "both"])  # fmt: skip
def test_a_corpus_holds_counts_as_count_texts_makes_them(tmp_path, settings):
    texts, path = [text for _, text in DOCUMENTS], tmp_path / "c"
    ingest([written(tmp_path / "docs.txt", DOCUMENTS)], path, settings, block_documents=2)
    corpus = open_corpus(path)
    found, _ = rows_in_source_order(path)
    again, words = VectorizerSettings.from_json(corpus.header.vectorizer), corpus.vocabulary()
    assert again == settings and (count_texts(texts, again, words)[0] != found).nnz == 0
    assert not corpus.header.weighted and (settings.stem is None or words == [",", "bank", "share"])
    assert corpus.document_frequency.tolist() == (found.toarray() > 0).sum(axis=0).tolist()


@pytest.mark.parametrize("limits", [
    {}, {"min_df": 2}, {"max_df": 0.3}, {"max_features": 9}, {"min_df": 3, "max_features": 30, "features": "words+characters"},
])  # fmt: skip
@pytest.mark.parametrize("most", [1, 40, 300])
def test_terms_that_do_not_fit_into_memory_are_merged_from_files(tmp_path, monkeypatch, limits, most):
    rng = np.random.default_rng(0)
    words = ["a", "ab", "abc", "東京", "é" * 9, "internationally", "internationalism", "x" * 40]
    many = [("xy"[i % 2], " ".join(rng.choice(words, rng.integers(0, 9)))) for i in range(120)]
    source = written(tmp_path / "docs.txt", many)
    settings = VectorizerSettings(ngram_range=(1, 3), token_pattern=r"\S+", **limits)
    split = {"held_out": 0.3, "random_state": 3}
    ingest([source], tmp_path / "whole", settings, n_jobs=1, **split)
    for name, value in (("terms.MAX_TERMS", most), ("terms.MERGED_NODES", 30)):
        monkeypatch.setattr(f"sdem_dist.text.{name}", value)
    for n_jobs in (1, 3):
        ingest([source], tmp_path / f"c{n_jobs}", settings, n_jobs=n_jobs, block_documents=7, **split)
        for part in ("", "-held-out"):
            assert len({open_corpus(tmp_path / f"{name}{part}").header.uid for name in ("whole", f"c{n_jobs}")}) == 1
    training = [many[i][1] for i in open_corpus(tmp_path / "c1").ids(0)]
    kinds, expected = [("", {"ngram_range": (1, 3), "token_pattern": r"\S+"})], []
    kinds += [(" ", {"ngram_range": (3, 4), "analyzer": "char_wb"})] * ("features" in limits)
    for mark, how in kinds:
        counter = CountVectorizer(**how, **{name: value for name, value in limits.items() if name != "features"})
        expected += [mark + term for term in counter.fit(training).get_feature_names_out()]
    assert open_corpus(tmp_path / "c1").vocabulary() == expected


def test_held_out_documents_have_no_part_in_words_and_their_frequencies(tmp_path):
    many = [(label, f"{text} only{i}") for i, (label, text) in enumerate(DOCUMENTS * 10)]
    source, settings = written(tmp_path / "docs.txt", many), VectorizerSettings(min_df=2)
    arguments = {"held_out": 0.25, "held_out_path": tmp_path / "h", "random_state": 1, "block_documents": 7}
    report = ingest([source], tmp_path / "c", settings, **arguments)
    corpus, held = open_corpus(tmp_path / "c"), open_corpus(tmp_path / "h")
    training_ids = np.sort(np.concatenate([corpus.ids(s) for s in range(len(corpus.header.shards))]))
    held_ids = np.asarray(held.ids(0))
    assert (np.diff(held_ids) > 0).all(), "held-out documents keep their order"
    assert sorted([*training_ids, *held_ids]) == list(range(60))
    assert (report.n_documents, report.n_held_out) == (len(training_ids), len(held_ids))
    reference = CountVectorizer(min_df=2, token_pattern=expression_of("words+signs"))
    training = reference.fit_transform([many[i][1] for i in training_ids])
    assert corpus.vocabulary() == held.vocabulary() == reference.get_feature_names_out().tolist()
    found, labels = rows_in_source_order(tmp_path / "h")
    assert (found != reference.transform([many[i][1] for i in held_ids])).nnz == 0
    for one, counts in ((corpus, training), (held, found)):
        assert one.document_frequency.tolist() == (counts.toarray() > 0).sum(axis=0).tolist()
    assert labels == [many[i][0] for i in held_ids] and held.header.classes == corpus.header.classes


def test_documents_of_weight_0_have_no_part_in_the_vocabulary(tmp_path):
    rows = ["label,text,weight", *["a,apple red,1", "b,stone grey,2"] * 9, "a,secret apple,0", "b,hidden,0"]
    (tmp_path / "x.csv").write_text("\n".join(rows))
    reading = Reading(weight="weight")
    for name, settings in [("all", VectorizerSettings()), ("half", VectorizerSettings(max_df=0.5))]:
        ingest([tmp_path / "x.csv"], tmp_path / name, settings, reading=reading)
        corpus = open_corpus(tmp_path / name)
        assert list(corpus.vocabulary()) == ["apple", "grey", "red", "stone"] and corpus.n_documents == 20
        assert rows_in_source_order(tmp_path / name)[0].toarray().sum(axis=1).tolist()[-2:] == [1, 0]


def test_a_test_set_takes_words_and_classes_from_its_training_corpus(tmp_path):
    settings = VectorizerSettings(stop_words=("the",))
    ingest([written(tmp_path / "train.txt", DOCUMENTS)], tmp_path / "train", settings)
    train = open_corpus(tmp_path / "train")
    test = [("earn", "bank and unheard words"), ("acq", "the oil"), ("earn", "nothing known")]
    ingest([written(tmp_path / "test.txt", test)], tmp_path / "test", vocabulary_from=tmp_path / "train")
    corpus = open_corpus(tmp_path / "test")
    assert corpus.header.vocabulary_hash == train.header.vocabulary_hash
    assert corpus.header.classes == train.header.classes and corpus.header.vectorizer == train.header.vectorizer
    stored = corpus.read(0, 3)
    assert [corpus.header.classes[i] for i in stored.labels] == ["earn", "acq", "earn"], "the order is kept"
    assert (stored.to_csr() != count_texts([t for _, t in test], settings, train.vocabulary())[0]).nnz == 0

    source = written(tmp_path / "odd.txt", [*test, ("sport", "goal")])
    with pytest.raises(IngestError) as caught:
        ingest([source], tmp_path / "odd", vocabulary_from=tmp_path / "train")
    assert (caught.value.path, caught.value.record) == (str(source), 4)
    report = ingest([source], tmp_path / "odd", vocabulary_from=tmp_path / "train", on_error="skip")
    assert (report.n_documents, report.n_skipped) == (3, 1)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_numbers_are_read_packed_and_with_comments(tmp_path, suffix):
    X = sp.random_array((11, 9), density=0.4, rng=np.random.default_rng(0)).tocsr()
    dump_svmlight_file(X, np.arange(11) % 3 - 1.0, str(tmp_path / "plain"), zero_based=True, comment="a comment")
    path = tmp_path / f"docs.svm{suffix}"
    path.write_bytes(compressed((tmp_path / "plain").read_bytes() + b"\n\n", suffix))
    ingest(path, tmp_path / "c", reading=Reading(zero_based=True), block_documents=4)
    found, labels = rows_in_source_order(tmp_path / "c")
    assert open_corpus(tmp_path / "c").header.weighted and labels == [str(i % 3 - 1) for i in range(11)]
    np.testing.assert_array_equal(found.toarray(), X.astype(np.float32).toarray()[:, : found.shape[1]])


@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight_columns_are_shifted_as_one(tmp_path, zero_based):
    X = sp.csr_matrix(np.array([[0, 2, 0, 1], [3, 0, 0, 0], [0, 0, 0, 0], [1, 0, 4, 0]]))
    dump_svmlight_file(X, [1, -1, 1, 2], str(tmp_path / "train.svm"), zero_based=zero_based)
    assert ingest([tmp_path / "train.svm"], tmp_path / "c", block_documents=1).first_column == 1 - zero_based
    found, labels = rows_in_source_order(tmp_path / "c")
    assert found.toarray().tolist() == X.toarray().tolist() and labels == ["1", "-1", "1", "2"]
    assert not open_corpus(tmp_path / "c").header.weighted

    # a test set that has not the first column, and one that the training set has not
    (tmp_path / "test.svm").write_text(f"-1 {3 - zero_based}:7 {9 - zero_based}:1\n")
    report = ingest([tmp_path / "test.svm"], tmp_path / "t", vocabulary_from=tmp_path / "c")
    assert report.first_column is None, "the vocabulary's corpus says it"
    assert rows_in_source_order(tmp_path / "t")[0].toarray().tolist() == [[0, 0, 7, 0]]


@pytest.mark.parametrize("failing", [1, 2, 3, 4])
def test_a_failure_keeps_the_corpus_and_what_was_held_out_or_leaves_nothing(tmp_path, failing):
    source = written(tmp_path / "docs.txt", DOCUMENTS * 5)
    paths = tmp_path / "c", tmp_path / "h"
    arguments = {"held_out": 0.5, "held_out_path": paths[1], "overwrite": True, "block_documents": 8}
    done = []

    def interrupt(stage, *numbers):
        done.append(stage)
        if done.count("writing") == failing * 2:
            raise KeyboardInterrupt

    np.testing.assert_raises(KeyboardInterrupt, ingest, [source], paths[0], **arguments, progress=interrupt)
    assert [p.name for p in tmp_path.iterdir()] == ["docs.txt"]
    ingest([source], paths[0], **arguments)
    before = [open_corpus(path).header.uid for path in paths]
    source.write_text(source.read_text(encoding="utf-8").replace("bank", "oil"), encoding="utf-8")
    done.clear()
    np.testing.assert_raises(KeyboardInterrupt, ingest, [source], paths[0], **arguments, progress=interrupt)
    assert [open_corpus(path).header.uid for path in paths] == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "docs.txt", "h"]


@pytest.mark.slow
@pytest.mark.skipif("SDEM_CORPORA" not in os.environ, reason="set SDEM_CORPORA to the folder of the real corpora")
def test_r8_has_the_published_size(tmp_path):
    source = Path(os.environ["SDEM_CORPORA"], "cachopo", "r8-train-stemmed.txt.xz")
    report = ingest([source], tmp_path / "c", VectorizerSettings(token_pattern=r"\S+"))
    assert (report.n_documents, report.n_features, len(report.classes)) == (5485, 14_575, 8)


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
def test_who_is_held_out(fraction, tmp_path):
    """A share of the documents, neighbours, seeds and sources independently, however the source is cut."""
    for name in ("s.tsv", "t.tsv"):
        (tmp_path / name).write_text("".join(f"{'ab'[i % 2]}\tgoal w{i % 9}\n" for i in range(4000)))
    masks = []
    for seed, block in ((0, 10_000), (0, 77), (1, 10_000)):
        how = {"random_state": seed, "block_documents": block, "overwrite": True, "held_out": fraction}
        ingest([tmp_path / "s.tsv", tmp_path / "t.tsv"], tmp_path / "c", **how)
        held = open_corpus(tmp_path / "c-held-out")
        masks.append(np.isin(np.arange(8000), held.ids_of(0, held.n_documents)))
    np.testing.assert_array_equal(masks[0], masks[1])
    first, second = masks[0][:4000], masks[0][4000:]
    assert abs(masks[0].mean() - fraction) < 0.03
    for one, other in ((first[1:], first[:-1]), (first, second), (masks[0], masks[2])):
        assert abs((one & other).mean() - fraction**2) < 0.03
