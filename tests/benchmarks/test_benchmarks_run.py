"""The benchmarks run, on documents small enough for a test; what they measure is read by people, not asserted.

They do not count among the tests: ``pytest -m benchmark`` runs them.
"""

import json

import choose
import corpora
import defaults
import harness
import many_classes
import mixtures
import numpy as np
import pytest
import record
import scale
import scipy.sparse as sp
import several_labels
import speed
import supervised_lda
import tables
import text_speed
import tokens
import topics
import unlabelled

pytestmark = pytest.mark.benchmark
RNG = np.random.default_rng(0)
SHARES, Y = RNG.dirichlet(np.full(60, 0.1), size=3), RNG.integers(3, size=120)
X = sp.csr_matrix(np.array([RNG.multinomial(30, SHARES[k]) for k in Y]))
SPLIT = corpora.Split(X[:90], Y[:90], X[90:], Y[90:])
SEVERAL = SPLIT._replace(y=np.eye(3, dtype=int)[SPLIT.y], y_test=np.eye(3, dtype=int)[SPLIT.y_test])
POLARITY = RNG.integers(0, 2, 300)
WORDS = sp.csr_matrix(np.array([RNG.multinomial(40, SHARES[k, :40] / SHARES[k, :40].sum()) for k in POLARITY]))
WHOLE = corpora.Reviews(WORDS, POLARITY, 3.0 + 2 * POLARITY + RNG.normal(size=300))
REVIEWS = tuple(WHOLE.take(rows) for rows in corpora.halves(300))


@pytest.fixture
def small_corpora(monkeypatch):
    small = {"load": SPLIT, "splits_of": [SPLIT], "imdb": REVIEWS}
    for module in (corpora, choose, scale, topics, speed):
        for name, value in small.items():
            monkeypatch.setattr(module, name, lambda *_, value=value: value, raising=False)
    monkeypatch.setattr(several_labels, "CORPORA", {"toy": lambda: [SEVERAL]})
    texts = [" ".join(f"w{word}" for word in np.flatnonzero(row)) for row in X.toarray()]
    labels = Y.astype(str)
    monkeypatch.setattr(tokens, "texts_of", lambda _: (texts, labels))
    monkeypatch.setattr(tokens, "split_of", lambda _: (texts[:90], labels[:90], texts[90:], labels[90:]))


SCRIPTS = [
    (mixtures.text, {"components": (2,), "seeds": 1}, "hinge, 2"),
    (mixtures.clusters, {"n_clusters": 3, "n_init": 2, "seeds": 1}, "online: NMI, ARI, purity"),
    (several_labels.models, {"names": ("toy",)}, "| MultiLabelNB | "),
    (speed.losses, {"documents": 200, "words": 50, "length": 10, "runs": 1}, "hinge                   1.00"),
    (speed.training, {"repeats": 1}, "ratio"),
    (supervised_lda.both, {"train": REVIEWS[0], "test": REVIEWS[1], "seeds": 1}, "stars R2, log1p: ours "),
    (tables.regression, {"names": ("diabetes",)}, "s a fit"),
    (tokens.quality, {"names": ("toy",)}, "| toy | words+signs | "),
    (tokens.peers, {"names": ("toy",)}, "| toy | LinearSVC, words+characters | "),
    (topics.accuracy, {"names": ("r8",), "rows": ("NCLL-LDA", "LinearSVC"), "starts": 2}, "r8 NCLL-LDA"),
    (topics.likelihood, {"names": ("imdb", "r8"), "topics": 3}, "r8, LatentDirichletAllocation(n_components=3): -"),
    (unlabelled.discriminative, {"labelled": (10,), "seeds": 1}, "| 10 | NLL, EM |"),
]


@pytest.mark.parametrize(("part", "options", "printed"), SCRIPTS, ids=lambda case: getattr(case, "__qualname__", None))
@pytest.mark.usefixtures("small_corpora")
def test_parts_print_what_they_measure(part, options, printed, capsys):
    part(**options)
    assert printed in capsys.readouterr().out


def test_options_are_the_parameters_of_the_part(monkeypatch):
    taken = []

    def first(names: tuple = ("a", "b"), rates: tuple = (0.5,), repeats: int = 3, small: bool = False) -> None:
        taken.append((names, rates, repeats, small))

    def print_second(only: tuple = (), most: int | None = None) -> None:
        taken.append((only, most))

    for words in ("", "x y --rates .1,.2 --repeats 1 --small", "second --most 4"):
        monkeypatch.setattr("sys.argv", ["script", *words.split()])
        harness.run("", first, print_second)
    monkeypatch.setattr("sys.argv", ["script", "second", "--only", "ours;LinearSVC, C = 1"])
    harness.run("", first, print_second)
    assert taken[:2] == [(("a", "b"), (0.5,), 3, False), (("x", "y"), (0.1, 0.2), 1, True)]
    assert taken[2:] == [((), 4), (("ours", "LinearSVC, C = 1"), None)]


def test_a_search_has_a_cost_and_peers():
    costs = choose.costs(SPLIT, {"step": [0.1, 0.5]}, cv=2)
    assert costs["settings"] == 3 and min(costs.values()) > 0
    methods = dict(choose.gains(SPLIT, c=(0.1, 1.0), cv=2))
    assert set(methods) == {"default", "search", "LinearSVC", "LogisticRegression"}
    assert all(of["accuracy"] > 0.5 for of in methods.values())
    figures = methods["LogisticRegression"]
    assert figures["C"] in (0.1, 1.0) and figures["seconds"] > 0 and figures["log-loss by log-loss"] > 0


def test_wrong_labels_are_found():
    assert all(precision > 0.2 for precision, _ in choose.flipped_labels(SPLIT, cv=2).values())


def test_labels_are_hidden_class_by_class():
    hidden = unlabelled.hide(np.repeat([0, 1, 2], 30), 5, seed=0)
    assert [(hidden == k).sum() for k in (-1, 0, 1, 2)] == [75, 5, 5, 5]


def test_large_corpora_are_perturbed_copies(tmp_path, monkeypatch):
    counts = sp.csr_matrix(RNG.poisson(1.0, (7, 50)).astype(np.uint8))
    monkeypatch.setattr(corpora, "all_ratings", lambda where: (counts, np.array(list("aabbcca"))))
    parts = list(corpora.batches(tmp_path, 20))
    assert sum(rows.shape[0] for rows, _ in parts) == 20 == sum(len(labels) for _, labels in parts)
    assert (parts[0][0] != counts).nnz == 0
    assert 0 < parts[1][0].nnz < counts.nnz and (parts[1][0] > counts).nnz == 0
    assert corpora.corpus_of(tmp_path, 20).n_documents == corpora.corpus_of(tmp_path, 20).n_documents == 20


def test_the_corpora_are_named_by_the_environment(monkeypatch):
    monkeypatch.delenv("SDEM_CORPORA", raising=False)
    np.testing.assert_raises_regex(FileNotFoundError, "SDEM_CORPORA", corpora.folder)


def test_many_classes(monkeypatch, capsys):
    monkeypatch.setattr(many_classes, "TESTED", 20)
    many_classes.one("ManyClassNB", 30, 600)
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.5


def test_tables():
    row, safe = tables.compare("iris", False, "ncll", "sum", repeats=1)
    assert safe and row[:4] == ["iris", "raw", "ncll", "sum"]
    scores, seconds = tables.explained([next(tables.regression_parts("diabetes"))], [0.0, 0.1])
    assert scores.shape == (2, len(seconds)) == (2, len(tables.regressors())) and scores.min() > 0.2


def test_topics():
    assert topics.epoch_seconds(REVIEWS[0]) > 0


def test_text_speed_counts_ingests_and_predicts(monkeypatch, capsys):
    texts = [f"good film number {i}" if i % 2 else f"bad film, bad end {i}" for i in range(60)]
    lines = [f"{i % 2}\t{text}" for i, text in enumerate(texts)]
    monkeypatch.setattr(text_speed, "reviews", lambda n: (texts, lines))
    text_speed.compare(repeats=1)
    printed = capsys.readouterr().out
    assert printed.count("bytes to CSR") == 3 and "predict" in printed
    few, y = ["a good film, good fun", "a bad film, so dull"] * 30, np.array([1, 0] * 30)
    split = text_speed.Split(few, y, ["good fun, good", "dull and bad"], np.array([1, 0]))
    monkeypatch.setattr(text_speed, "split_of_reviews", lambda most: split)
    text_speed.whole(repeats=1)
    assert capsys.readouterr().out.count("   1.0000 ") == len(text_speed.CONTENDERS)


def test_text_on_workers_is_timed_and_weighed(tmp_path, monkeypatch, capsys):
    def write(path, n, times=1):
        path.write_text("".join(f"{i % 2}\tgood film number {i}\n" for i in range(60)))
        return 60

    monkeypatch.setattr(text_speed, "write_reviews", write)
    text_speed.by_workers(tmp_path, None, 1)
    assert "ingest, 60 documents: this process" in capsys.readouterr().out
    assert "driver" in text_speed.measured(tmp_path / "s.tsv", tmp_path / "c", text_speed.CHARACTERS)


def test_the_defaults_stand_beside_their_neighbours():
    rows = defaults.rows_of([SPLIT], slow=False)
    assert set(rows) >= {"ours", "LinearSVC", "NBSVM, beta 1"}
    assert all(row.accuracy > 0.6 and row.seconds > 0 for row in rows.values())
    assert "LinearSVC" in defaults.table("toy", rows)
    assert rows["ours"].log_loss > 0 and 0 <= rows["ours"].ece <= 1


def test_a_recorded_run_takes_the_place_of_the_one_before():
    page = "# Results\n\n## By hand\n\ntext\n\n## Older figures\n\nold\n"
    for command in (["a.py"], ["b.py", "--only", "r8 whole"], ["a.py"]):
        page = record.with_section(page, command, record.section(command, f"{command[0]} printed\n"))
    headings = ["## By hand", "## `a.py`", "## `b.py --only 'r8 whole'`", "## Older figures"]
    assert [line for line in page.splitlines() if line.startswith("## ")] == headings
    assert page.count("    a.py printed") == 1
    assert page.startswith("# Results\n\n## By hand\n\ntext\n")
    assert page.endswith("\n\n## Older figures\n\nold\n")
