"""The benchmarks run, on documents small enough for a test; what they measure is read by people, not asserted.

They do not count among the tests: ``pytest -m benchmark`` runs them.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parent))

import batches
import choose
import choose_defaults
import choose_peers
import choose_topic_defaults
import cluster_text
import corpora
import defaults
import few_a_class
import indifferent
import large
import lda
import loss_cost
import many_classes
import missing_values
import mixtures
import overlap
import record
import regression
import reviews
import safe_steps
import several_label_suspects
import several_labels
import speed
import supervised_lda
import text_speed
import topic_inference
import topic_likelihood
import topic_speed
import uncertainty
import unlabelled
import whole_way

from sdem_dist import LatentDirichletAllocation, MultinomialNB, write_corpus

pytestmark = pytest.mark.benchmark


@pytest.fixture
def split():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(60, 0.1), size=3)
    y = rng.integers(3, size=120)
    X = sp.csr_matrix(np.array([rng.multinomial(30, topics[k]) for k in y]))
    return corpora.Split(X[:90], y[:90], X[90:], y[90:])


def test_speed_reports_what_it_reached(split):
    from sklearn.svm import LinearSVC

    assert "reached after" in speed.against("LinearSVC", LinearSVC(), split, repeats=1)
    assert "ratio" in speed.sequential_epoch(split, repeats=1)


def test_losses_have_a_cost():
    X, y = loss_cost.drawn(200, 50, 2, length=10)
    found = loss_cost.ratios(X, y, 2, runs=1)
    assert found["hinge"] == 1.0 and min(found.values()) > 0


def test_defaults_are_chosen_on_held_out_fourths(split):
    weighted = corpora.tfidf(split, norm=3.0)
    assert np.allclose(np.sqrt(weighted.X.multiply(weighted.X).sum(axis=1)), 3.0)
    accuracy, loss = choose_defaults.cross_validated(split, step=0.2)
    assert 0.6 < accuracy <= 1.0
    assert loss > 0


def test_what_should_hardly_matter(split):
    found = indifferent.rows(split)
    assert {setting: len(of) for setting, of in found.items()} == {"norm": 4, "alpha": 4}
    assert "apart 0.0" in indifferent.line("norm", found["norm"])


def test_batches(split, tmp_path):
    corpus = write_corpus(tmp_path / "corpus.zarr", split.X, split.y)
    said = batches.line(split, corpus, None, 1, merge="sum", batch_size=16)
    assert said.startswith("  sum, 16 documents") and "ms each" in said


def test_draws_of_few_documents_a_class():
    y = np.repeat(np.arange(3), 60)
    for kind, least in (("random", 0), ("1", 10), ("3", 5)):
        train, test = few_a_class.drawn(y, kind, 10, 0)
        sizes = np.bincount(y[train], minlength=3)
        assert not set(train) & set(test)
        assert abs(len(train) - 30) <= 1
        assert sizes.min() >= least
    assert sizes.max() > 2.5 * sizes.min()
    found = np.array([[[0.9, 0.5, 1.0], [0.8, 0.6, 2.0]]])
    np.testing.assert_allclose(few_a_class.regret(found, np.array([False])), [0.1, 0.0, 100.0])


def test_hinge_and_ncll_where_classes_overlap():
    texts, y = ["a good film", "a fair film", "a bad film"] * 30, np.arange(90) % 3
    accuracy, loss = overlap.cross_validated(overlap.counted(texts, y), loss="ncll")
    assert accuracy == 1.0 and 0 < loss < 1


def test_choosing(split):
    found = choose.cost(split, {"step": [0.1, 0.5]}, cv=2)
    assert found["settings"] == 3 and min(found.values()) > 0
    methods = dict(choose.gain(split, c=(1.0,), cv=2))
    assert set(methods) == {"default", "search", "LinearSVC", "LogisticRegression"}
    assert all(of["accuracy"] > 0.5 for of in methods.values())
    assert all(precision > 0.2 for precision, _ in choose.suspects(split, cv=2).values())


def test_an_interrupted_grid_goes_on_from_its_file(split, tmp_path, monkeypatch):
    kept = choose_peers.Kept(tmp_path / "figures.json")
    found = choose_peers.grid(split, "LogisticRegression", kept, "toy", cs=(0.1, 1.0), cv=2)
    assert found["C"] in (0.1, 1.0) and found["seconds"] > 0 and found["log-loss by log-loss"] > 0
    monkeypatch.setattr(choose_peers, "cross_validate", None)
    again = choose_peers.Kept(tmp_path / "figures.json")
    assert choose_peers.grid(split, "LogisticRegression", again, "toy", cs=(0.1, 1.0), cv=2) == found


def test_classes_with_topics(split):
    assert set(lda.ROWS) > {"NCLL-LDA", "NLL-LDA", "naive Bayes of counts, NCLL", "LinearSVC"}
    found = lda.accuracies(split, lda.ROWS["NCLL-LDA"], starts=2)
    assert len(found) == 2 and min(found) > 0.6
    assert lda.spread([0.5, 0.7]) == "0.6000 (0.5000 to 0.7000)"
    for settings in lda.CANDIDATES.values():
        accuracy, log_loss = lda.cross_validated(split, {**settings, "n_epochs": 2}, folds=2)
        assert 0.4 < accuracy <= 1.0
        assert 0.0 <= log_loss < 3.0  # rounded
    assert all(rate > 0 for rate in lda.sampler(split, 3, repeats=1, sweeps=2).values())


def test_the_supervised_peer_of_topics(split):
    pytest.importorskip("tomotopy", reason="the peer is measured where it is installed")
    assert 0.0 <= lda.slda(split, 0, n_topics=3, iterations=20) <= 1.0


def test_large_corpora_are_perturbed_copies(tmp_path, monkeypatch):
    X = sp.csr_matrix(np.random.default_rng(0).poisson(1.0, (7, 50)).astype(np.uint8))
    monkeypatch.setattr(large, "reviews", lambda where: (X, np.array(list("aabbcca"))))
    found = list(large.batches(tmp_path, 20))
    assert sum(rows.shape[0] for rows, _ in found) == 20 == sum(len(labels) for _, labels in found)
    assert (found[0][0] != X).nnz == 0
    assert 0 < found[1][0].nnz < X.nnz
    assert (found[1][0] > X).nnz == 0
    assert large.corpus_of(tmp_path, 20).n_documents == large.corpus_of(tmp_path, 20).n_documents == 20


def test_the_corpora_are_named_by_the_environment(monkeypatch):
    monkeypatch.delenv("SDEM_CORPORA", raising=False)
    with pytest.raises(FileNotFoundError, match="SDEM_CORPORA"):
        corpora.folder()


def test_many_classes(monkeypatch):
    monkeypatch.setattr(many_classes, "TESTED", 20)
    found = many_classes.measured("ManyClassNB", 600, 30)
    assert found["accuracy"] > 0.5
    assert not many_classes.fits("MultinomialNB hinge", 100_000)


def test_safe_steps():
    assert safe_steps.densities("iris").startswith("| iris | -")
    row, safe = safe_steps.compare("iris", False, "ncll", "sum", repeats=1)
    assert safe
    assert row.startswith("| iris | raw | ncll | sum |")


def test_missing_values(monkeypatch):
    few = {name: peer for name, peer in missing_values.peers().items() if "trees" not in name}
    monkeypatch.setattr(missing_values, "peers", lambda: few)
    found = missing_values.accuracies("iris", 0.1, repeats=1)
    assert set(found) == set(few)
    assert min(found.values()) > 0.8


def test_labels_are_hidden_evenly():
    hidden = unlabelled.hide(np.repeat([0, 1, 2], 30), 5, seed=0)
    assert [(hidden == k).sum() for k in (-1, 0, 1, 2)] == [75, 5, 5, 5]


def test_documents_without_labels(split, capsys):
    unlabelled.compare(split, [10], seeds=1)
    assert capsys.readouterr().out.count("| 10 |") == len(unlabelled.discriminative())


def test_several_labels(split):
    y = np.eye(3, dtype=int)[split.y], np.eye(3, dtype=int)[split.y_test]
    several = corpora.Split(split.X, y[0], split.X_test, y[1])
    for make in several_labels.MODELS.values():
        assert 0.5 < several_labels.measured(make, several)[0] <= 1.0


def test_wrong_labels_among_several_are_found(split):
    several = corpora.Split(split.X, np.eye(3, dtype=int)[split.y], split.X_test, None)
    rows = list(several_label_suspects.found(several, cv=2))
    assert rows[0][0] == "label_suspects"
    assert all(entries > 0.2 and documents > 0.3 for _, entries, documents, _ in rows)


def test_classes_are_told_apart_in_three_ways(split):
    found = several_labels.classes_apart(split)
    assert len(found) == 3 and all(accuracy > 0.6 for accuracy, _ in found.values())


def test_posteriors_of_words(split):
    counts, prior = uncertainty.posterior(MultinomialNB(loss="nll"), split.X, split.y)
    for scores in (
        uncertainty.compound(counts, prior, split.X_test),
        uncertainty.averaged(counts, prior, split.X_test),
    ):
        assert (scores.argmax(axis=1) == split.y_test).mean() > 0.6


def test_regression():
    scores, seconds = regression.compare([next(regression.parts("diabetes"))], [0.0, 0.1])
    assert scores.shape == (2, len(seconds)) == (2, len(regression.models()))
    assert scores.min() > 0.2


def test_clusters(split):
    lines = mixtures.clusters(split, 3, n_init=2, seeds=1)
    assert len(lines) == 4 and all("NMI, ARI, purity" in line for line in lines)


def test_text(split):
    assert mixtures.text("toy", split, (2,), seeds=1).count("|") == 7


def test_digits():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    X = rng.gamma(1.0 + (y[:, None] == np.arange(6) % 3))
    assert mixtures.acceleration(X, y, 2, 20).count(" of 20") == 4
    assert "ratio" in mixtures.time_of_passes(X, y, 2, "float32", passes=2)
    assert mixtures.defaults(X, y, 1).count("accelerated") == 4


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(40, 0.2), 2)
    y = rng.integers(0, 2, 300)
    X = sp.csr_matrix(np.array([rng.multinomial(40, topics[k]) for k in y]))
    whole = reviews.Reviews(X, y, 3.0 + 2 * y + rng.normal(size=300))
    return tuple(whole.take(rows) for rows in reviews.halves(300))


def test_both_measures_from_counts_and_logarithms(parts, capsys):
    supervised_lda.both(*parts, seeds=1)
    shown = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in shown] == [
        "polarity AUC, raw", "stars R2, raw", "polarity AUC, log1p", "stars R2, log1p",
    ]  # fmt: skip


def test_sweeps_and_sparsity(parts, capsys):
    supervised_lda.sweep(*parts, "n_layers", (1, 3), n_components=4)
    supervised_lda.sparsity(*parts, (1.001, 0.5))
    shown = capsys.readouterr().out
    assert shown.count("AUC") == 2
    assert shown.count("hold 90 % of the mass") == 2


def test_words_held_out(parts):
    model = LatentDirichletAllocation(n_components=3, n_epochs=2)
    line = topic_likelihood.row("ours", model, model.alpha, *parts, parts[1].X[:5])
    assert line.startswith("ours: -")


def test_ways_of_inference(parts):
    assert "AUC" in topic_inference.line({"inference": "accelerated"}, *parts, parts[1].X[:5])


def test_speed(parts, capsys):
    assert topic_speed.epoch_seconds(parts[0]) > 0
    topic_speed.growth(lambda train, n_epochs, **settings: float(len(train.y)), parts[0])
    assert "240 documents: 240.000 s" in capsys.readouterr().out
    if find_spec("jax") is not None:
        assert topic_speed.automatic(parts[0], batch=50, n_batches=2) > 0


def test_lists_of_numbers():
    assert choose_topic_defaults.numbers(".1,3") == [0.1, 3.0]


def test_text_speed_counts_ingests_and_predicts(tmp_path):
    texts = [f"good film number {i}" if i % 2 else f"bad film, bad end {i}" for i in range(60)]
    for options in text_speed.ORDERS.values():
        assert min(text_speed.against_count_vectorizer(texts, options, 1)) > 0
    buffer = text_speed.texts_of_strings(texts)
    assert text_speed.two_against_one(lambda n_jobs: text_speed.counted_in_threads(buffer, n_jobs, {}), 1) > 0
    lines = [f"{i % 2}\t{text}" for i, text in enumerate(texts)]
    assert min(text_speed.file_speeds(lines, tmp_path, {}, 2, 1)) > 0


def test_text_on_workers_is_timed_and_weighed(tmp_path, monkeypatch, capsys):
    def write(path, n, times=1):
        path.write_text("".join(f"{i % 2}\tgood film number {i}\n" for i in range(60)))
        return 60

    monkeypatch.setattr(cluster_text, "write_reviews", write)
    cluster_text.compare(tmp_path, None, 1)
    assert "ingest, 60 documents: this process" in capsys.readouterr().out
    assert "driver" in cluster_text.measured(tmp_path / "s.tsv", tmp_path / "c", cluster_text.CHARACTERS)


def test_the_defaults_stand_beside_their_neighbours(split):
    rows = defaults.rows_of([split], slow=False)
    assert set(rows) >= {"ours", "LinearSVC", "NBSVM, beta 1"}
    assert all(row.accuracy > 0.6 and row.seconds > 0 for row in rows.values())
    assert "LinearSVC" in defaults.table("toy", rows)
    known = rows["ours"]
    assert known.log_loss > 0
    assert 0 <= known.ece <= 1


def test_the_whole_way_goes_from_texts_to_predictions(tmp_path):
    texts, y = ["a good film, good fun", "a bad film, so dull"] * 30, np.array([1, 0] * 30)
    split = whole_way.Split(texts, y, ["good fun, good", "dull and bad"], np.array([1, 0]))
    for run in whole_way.CONTENDERS.values():
        assert run(split, tmp_path)[0].tolist() == [1, 0]


def test_a_recorded_run_takes_the_place_of_the_one_before():
    page = "# Results\n\n## By hand\n\ntext\n\n## Older figures\n\nold\n"
    for command in (["a.py"], ["b.py", "--only", "r8 whole"], ["a.py"]):
        page = record.with_section(page, command, record.section(command, f"{command[0]} printed\n"))
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## By hand",
        "## `a.py`",
        "## `b.py --only 'r8 whole'`",
        "## Older figures",
    ]
    assert page.count("    a.py printed") == 1
    assert page.startswith("# Results\n\n## By hand\n\ntext\n")
    assert page.endswith("\n\n## Older figures\n\nold\n")
