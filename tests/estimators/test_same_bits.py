"""Every estimator has the same bits in memory, from a corpus, on threads, processes, dying workers, as a file and a copy."""

import json
import subprocess
import sys
import warnings
from copy import deepcopy
from functools import cache
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from reference.catalogue_cases import CASES, write_corpora
from reference.trained_bits import Stop, bits, kept

import sdem_dist
from sdem_dist import CorpusError, MultinomialNB, PoissonNB, open_corpus, write_corpus
from sdem_dist.catalogue import ESTIMATORS
from sdem_dist.corpus import MemoryCorpus, base
from sdem_dist.corpus.labels import column_of
from sdem_dist.fitting.defaults import SMALL_ENTRIES

TESTS = Path(__file__).parent.parent
each_case = pytest.mark.parametrize("name", CASES)
FIRST = tuple({case.estimator: name for name, case in reversed(CASES.items())}.values())
"""One case an estimator; the others with the slow tests, where most time goes."""
PLACES = [("cluster-2", FIRST)]
SLOW_PLACES = ("threads-2", "cluster-1", "cluster-2", "cluster-4", "cluster-threads")
PLACES += [pytest.param(where, tuple(CASES), marks=pytest.mark.slow) for where in SLOW_PLACES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bits")
    write_corpora(path)
    for name in ("counts", "numbers", "table"):  # else training in this process would take one thread
        assert open_corpus(path / name).header.n_nonzeros > SMALL_ENTRIES
    return path


@pytest.fixture(scope="module")
def bits_of(folder):
    """A function from a place to what a process of its own trained there."""

    @cache
    def run(where: str, names: tuple[str, ...] = tuple(CASES)) -> dict:
        command = [sys.executable, "-m", "reference.trained_bits", str(folder), where, *names]
        result = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=280, check=False)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


def test_every_estimator_takes_part():
    assert {case.estimator for case in CASES.values()} == set(ESTIMATORS)
    half = {case.estimator for case in CASES.values() if "unlabelled" in case.settings}
    assert half == {name for name in ESTIMATORS if getattr(sdem_dist, name).spec.unlabelled}


def test_settings_differ_so_that_equality_means_something(bits_of):
    found = bits_of("threads-1")
    assert len({found[name] for name in CASES}) == len(CASES)


@pytest.mark.parametrize(("where", "names"), PLACES)
def test_same_bits_wherever_it_runs(bits_of, where, names):
    expected = bits_of("threads-1")
    assert bits_of(where, names) == {name: expected[name] for name in ("killed", *names)}


@pytest.mark.slow
def test_same_bits_though_workers_die(bits_of):
    found, expected = bits_of("killed"), bits_of("threads-1")
    assert found.pop("killed") == 2 and found == {name: expected[name] for name in CASES}


@each_case
def test_same_bits_in_memory_and_from_a_file(name, folder, tmp_path, bits_of):
    """Rows from memory, on two threads, where the shuffle puts them into the order in which they are stored."""
    case = CASES[name]
    model = case.made(n_jobs=2)
    stored = open_corpus(folder / case.corpus)
    documents = stored.read(0, stored.n_documents)
    rows = np.asarray(documents.values, np.float64) if hasattr(documents, "values") else documents.to_csr()
    sets = stored.header.label_sets
    labels = documents.labels if sets is None else column_of([sets[code] for code in documents.labels])
    y = {"labels": labels, "numbers": getattr(documents, "targets", None), "nothing": None}[model.spec.target]
    if case.corpus == "target":
        rows, y = rows[:, :-1], rows[:, -1]
    elif model.spec.shuffled:
        inverse = np.argsort(np.random.Generator(np.random.PCG64(0)).permutation(stored.n_documents))
        rows, y = rows[inverse], None if y is None else y[inverse]
    assert bits(model.fit(rows, y)) == bits_of("threads-1")[name]
    loaded = kept(model, tmp_path / "model")
    assert bits(loaded) == bits(model)
    np.testing.assert_equal(loaded.get_params(), {**model.get_params(), "n_jobs": None})
    for method in filter(lambda method: hasattr(model, method), METHODS):
        np.testing.assert_array_equal(getattr(loaded, method)(rows[:200]), getattr(model, method)(rows[:200]))
    some = rows[:200], None if y is None else y[:200]
    np.testing.assert_equal(loaded.evaluate(*some), model.evaluate(*some))


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in FIRST)) for n in CASES])
def test_same_bits_after_a_stop(name, folder, tmp_path, bits_of):
    """A run that another process would go on with, from each of its checkpoints and stages."""

    def stop(event):
        if type(event).__name__ == "CheckpointWritten":
            stopped.append(event)
            raise Stop

    stopped, tries = [], 0
    corpus, how = open_corpus(folder / CASES[name].corpus), {"checkpoint_rounds": 2, "callbacks": [stop]}
    while tries == 0 or len(stopped) == tries:
        tries += 1
        try:
            model = CASES[name].made(n_jobs=1).fit(corpus, checkpoint=tmp_path, resume=tries > 1, **how)
        except Stop:
            continue
    assert bits(model) == bits_of("threads-1")[name]


ALL_TRAINED_ON = {"validation_fraction": 0.0}
LONGER = dict.fromkeys(("em", "multiplicative", "sdem of numbers"), ALL_TRAINED_ON) | {"clusters": {}}
LONGER |= {"hinge mean": {**ALL_TRAINED_ON, "evaluate_every": 2}, "gaussian ncll": {"evaluate_every": 2}}


@pytest.mark.parametrize("name", LONGER)
def test_three_epochs_and_three_more_are_six(name, folder, tmp_path):
    corpus = open_corpus(folder / CASES[name].corpus)
    three, six = (CASES[name].made(**{**LONGER[name], "n_epochs": n}) for n in (3, 6))
    three.fit(corpus, checkpoint=tmp_path)
    assert bits(six.fit(corpus, checkpoint=tmp_path, resume=True)) == bits(six.fit(corpus))


N, WIDTH = 60, 12
RNG = np.random.default_rng(7)
COUNTS = sp.csr_matrix(RNG.poisson(0.8, (N, WIDTH)))
TABLE = RNG.poisson(1.2, (N, WIDTH)).astype(np.float64)
LABELS, TARGETS = np.array(["ant", "bee", "cow"])[np.arange(N) % 3], RNG.normal(size=N)
METHODS = ("predict", "predict_proba", "predict_log_proba", "predict_joint_log_proba")
METHODS += ("decision_function", "transform", "score_samples")
each_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def made(name):
    model = getattr(sdem_dist, name)()
    return model.set_params(**{k: v for k, v in {"n_components": 2, "n_epochs": 2}.items() if k in model.get_params()})


def fitted(name):
    model = made(name)
    X = COUNTS if model.spec.layout == "sparse" else (TABLE > 1).astype(float) if name == "BernoulliNB" else TABLE
    return model.fit(X, {"labels": LABELS, "numbers": TARGETS, "nothing": None}[model.spec.target]), X


def methods_of(model):
    found = [method for method in METHODS if method in dir(model)]  # which reads all that fitting adds
    assert found
    return found


@each_estimator
def test_the_bits_are_those_in_memory(name, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(base, "BATCH_ENTRIES", 5 * WIDTH)
    model, X = fitted(name)
    dense = model.spec.layout == "dense"
    stored = np.column_stack([X, TARGETS]) if model.spec.target == "numbers" and dense else X
    corpus = write_corpus(tmp_path / "c", stored, dense=dense, shuffle=False, shard_documents=11)
    labels, classes = (np.zeros(N), ("?",)) if dense else (None, ())
    in_memory = MemoryCorpus(X, labels, classes, shuffle=False, dense=dense)
    blocks = da.from_array(X if dense else X.toarray(), chunks=(25, WIDTH))
    for method in methods_of(model):
        expected = np.asarray(getattr(model, method)(X))
        for documents in (corpus, in_memory, blocks):
            found = getattr(model, method)(documents)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            lazy = documents is blocks and method != "score_samples" and name != "GaussianRegressor"
            assert hasattr(found, "__dask_graph__") == lazy
            np.testing.assert_array_equal(np.asarray(found), expected, err_msg=f"{name}.{method}")


@pytest.mark.parametrize("asked", [False, True])
@each_estimator
def test_every_model_is_itself_after_skops_and_as_a_copy(name, asked):
    skops = pytest.importorskip("skops.io")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows
        model, X = fitted(name)
    if asked:  # what predictions need is then there
        model.evaluate(X) if model.spec.target == "nothing" else model.predict(X)
    written = skops.dumps(model)
    copies = skops.loads(written, trusted=skops.get_untrusted_types(data=written)), deepcopy(model)
    for method in methods_of(model):
        for again in copies:
            np.testing.assert_array_equal(getattr(again, method)(X), getattr(model, method)(X))


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if made(n).spec.layout == "sparse"])
def test_the_words_have_to_be_the_model_s(name, tmp_path):
    words, model = [f"w{i}" for i in range(WIDTH)], made(name)
    y = LABELS if model.spec.target == "labels" else None
    model.fit(write_corpus(tmp_path / "c", COUNTS, y, targets=TARGETS, vocabulary=words))
    others = {
        "vocabulary": write_corpus(tmp_path / "d", COUNTS, vocabulary=words[::-1]),
        "has 3 words, but the model": write_corpus(tmp_path / "n", COUNTS[:, :3]),
        "the documents are dense, but": write_corpus(tmp_path / "e", TABLE, dense=True),
    }
    for method in (*methods_of(model), *(["score", "perplexity"] if hasattr(model, "perplexity") else [])):
        for said, corpus in others.items():
            np.testing.assert_raises_regex(CorpusError, said, getattr(model, method), corpus)


def test_rows_come_in_the_order_of_the_corpus_whose_classes_do_not_matter(tmp_path):
    model, X = fitted("MultinomialNB")
    corpus = write_corpus(tmp_path / "c", X, ["x"] * N, shard_documents=9)
    order = np.concatenate([corpus.ids(shard) for shard in range(len(corpus.header.shards))])
    assert (order != np.arange(N)).any()
    np.testing.assert_array_equal(model.predict_proba(corpus), model.predict_proba(X[order]))


def test_values_without_a_place_are_named(tmp_path):
    model = PoissonNB(n_epochs=1).fit(TABLE, LABELS)
    odd = TABLE.copy()
    odd[4, 2] = -1
    corpus = write_corpus(tmp_path / "c", odd, dense=True, shuffle=False)
    with pytest.raises(CorpusError, match=r"documents 0 to 60 .*Negative values.* row 4, column 2"):
        model.predict(corpus)


def test_two_classes_have_one_number():
    model = MultinomialNB().fit(COUNTS, np.where(LABELS == "cow", "cow", "other"))
    found, log_proba = model.decision_function(COUNTS), model.predict_log_proba(COUNTS)
    assert found.shape == (N,)
    np.testing.assert_allclose(found, log_proba[:, 1] - log_proba[:, 0], atol=1e-12)
    np.testing.assert_array_equal(model.classes_[(found > 0).astype(int)], model.predict(COUNTS))
