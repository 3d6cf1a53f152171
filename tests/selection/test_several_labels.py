"""Folds of several labels per document: scores are those of fits without the fold, anywhere; what is suspected."""

import numpy as np
import pytest
import scipy.sparse as sp
from cli.commands import ok
from selection.conftest import same, searched
from sklearn.metrics import average_precision_score

import sdem_dist as sd

NAMES = np.array(["arts", "money", "sport"])
SPACE = {"loss": ["hinge", "ncll"], "norm": [5.0, 10.0]}
MODELS = [sd.MultiLabelNB(n_jobs=1), sd.SupervisedLDAClassifier(3, n_epochs=1, n_jobs=1)]


def made(n, seed=0):
    """Documents with the topics of their labels, one of all documents among them."""
    rng = np.random.default_rng(seed)
    topics = np.random.default_rng(7).dirichlet(np.full(60, 0.2), size=4)
    members = rng.random((n, 3)) < [0.15, 0.5, 0.3]
    words = np.stack([rng.multinomial(12, p / p.sum()) for p in (topics[0] + 2.0 * members @ topics[1:])])
    return sp.csr_matrix(words.astype(np.uint8)), members.astype(int)


def lists_of(members):
    return [NAMES[row > 0].tolist() for row in members]


@pytest.fixture(scope="module")
def documents():
    return made(300)


@pytest.fixture(scope="module")
def sets(documents, tmp_path_factory):
    X, members = documents
    return sd.write_corpus(tmp_path_factory.mktemp("sets") / "c.zarr", X, lists_of(members), shard_documents=100)


def search(corpus, **more):
    return searched(corpus, **{"estimator": MODELS[0], "space": SPACE, **more})


def test_forms_of_labels_are_one_in_memory(documents):
    X, members = documents
    of = [sd.cross_validate(MODELS[0], X, y, cv=3) for y in (members, lists_of(members))]
    np.testing.assert_array_equal(of[0].proba, of[1].proba)


@pytest.mark.parametrize(("model", "space"), [(MODELS[0], SPACE), (MODELS[1], {"n_components": [2]})])
def test_the_same_anywhere_and_from_a_checkpoint(model, space, sets, client, tmp_path):
    what = {"estimator": model, "space": space}
    straight = search(sets, checkpoint=tmp_path / "run", **what)
    assert straight.metric_ == "micro-F1" and straight.oof_proba_.shape == (300, 3)
    same(search(sets, client=client, **what), straight)
    again = search(sets, checkpoint=tmp_path / "run", resume=True, **what)
    same(again, straight)
    np.testing.assert_array_equal(again.best_estimator_.thresholds_, straight.best_estimator_.thresholds_)


def test_a_metric_of_ones_own_takes_matrices(sets):
    def exact(members, proba):
        assert members.shape == proba.shape
        return float(((proba > 0.5) == members).all(axis=1).mean())

    assert 0.1 < search(sets, metric=exact, n_trials=2).best_score_ < 1.0
    assert np.isfinite(search(sets, nested=True, n_trials=2).nested_score_)


def test_a_label_of_one_document_is_known_to_all_folds(documents):
    X, members = documents
    lists = lists_of(members)
    lists[5] = [*lists[5], "rare"]
    for model in MODELS:
        of = sd.cross_validate(model, X, lists, cv=3)
        assert of.proba.shape == (300, 4) and np.isfinite(of.scores["log-loss"]).all()


def test_documents_set_apart_may_have_other_sets(sets, tmp_path):
    X, members = made(90, seed=5)
    members[:, 0] = 0
    apart = sd.write_corpus(tmp_path / "apart.zarr", X, lists_of(members))
    assert apart.header.label_sets != sets.header.label_sets
    for model in MODELS:
        of, alone = sd.cross_validate(model, sets, cv=apart), model.fit(sets).evaluate(apart)
        assert of.scores["log-loss"][0] == pytest.approx(alone["label_log_loss"], rel=1e-5)


def test_wrong_labels_are_suspected(tmp_path):
    X, members = made(600, seed=3)
    wrong = np.random.default_rng(0).random(members.shape) < 0.1
    flipped = np.where(wrong, 1 - members, members)
    of = sd.label_suspects(X, lists_of(flipped), n=None, n_jobs=1)
    assert len(of) == 1800 and of.n_documents == 600 and (np.diff(of.doubt) <= 0).all()
    columns = np.searchsorted(NAMES, of.labels)
    assert np.array_equal(of.present, flipped[of.documents, columns] > 0)
    assert of.doubt == pytest.approx(np.where(of.present, 1.0 - of.label_proba, of.label_proba))
    assert average_precision_score(wrong[of.documents, columns], of.doubt) > 0.6
    lines = repr(of).splitlines()
    assert lines[0].split() == ["document", "label", "status", "doubt", "p(label)"] and len(lines) == 23
    assert "present" in repr(of) and "missing" in repr(of)
    corpus = sd.write_corpus(tmp_path / "c.zarr", X, lists_of(flipped))
    on_disk, codes = sd.label_suspects(corpus, n=50, n_jobs=1), corpus.labels()
    sets = [corpus.header.label_sets[codes[d]] for d in on_disk.positions]
    has = [label in own for label, own in zip(on_disk.labels, sets, strict=True)]
    assert on_disk.present.tolist() == has and len(on_disk) == 50


def test_more_documents_teach_more(sets):
    curve = sd.learning_curve(MODELS[0], sets, shares=(0.1, 1.0), cv=3)
    assert curve.micro_f1.shape == curve.log_loss.shape == (2, 3)
    assert curve.micro_f1[0].mean() < curve.micro_f1[1].mean()
    alone = sd.MultiLabelNB(n_jobs=1).fit(sets.folds(3).train(1)).evaluate(sets.folds(3).test(1))
    assert curve.micro_f1[1, 1] == alone["micro_f1"] and curve.accuracy[1, 1] == alone["accuracy"]


def test_what_does_not_go_together_is_refused(documents, sets):
    X, members = documents
    with pytest.raises(ValueError, match=r"has no metric perplexity for several labels: use micro-F1"):
        sd.CorpusSearchCV(sd.MultiLabelNB(), {}, metric="perplexity").fit(sets)
    with pytest.raises(ValueError, match=r"MultiLabelNB has no metric micro-F1: use log-loss, accuracy"):
        sd.CorpusSearchCV(sd.MultiLabelNB(), {}, metric="micro-F1").fit(X, members[:, 0])
    with pytest.raises(ValueError, match="use MultiLabelNB or SupervisedLDAClassifier"):
        sd.cross_validate(sd.MultinomialNB(), sets)
    for apart in (sets, (X, members)):
        with pytest.raises(ValueError, match="labels"):
            sd.cross_validate(sd.MultiLabelNB(), X, NAMES[members.argmax(axis=1)], cv=apart)


@pytest.fixture(scope="module")
def posts(tmp_path_factory):
    words, members = made(300)
    path = tmp_path_factory.mktemp("posts") / "posts.tsv"
    rows = zip(lists_of(members), words, strict=True)
    path.write_text("".join(f"{','.join(labels)}\t{' '.join(f'w{w}' for w in row.indices)}\n" for labels, row in rows))
    return path


def test_the_command_tunes_a_source(posts, tmp_path):
    more = ["--label-separator", ",", "--folds", "3", "--estimator"]
    said = ok("tune", str(posts), str(tmp_path / "m"), *more, "MultiLabelNB", "--space", "norm=5,10", "--curve",
              str(tmp_path / "curve.png"))  # fmt: skip
    assert "micro-F1  log-loss  accuracy" in said and " +- " in said
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert sd.load_model(tmp_path / "m").predict(["w1 w2"]).shape == (1, 3)
    ok("tune", str(posts), str(tmp_path / "t"), *more, "SupervisedLDAClassifier", "--space", "n_components=2,4",
       "--set", "n_epochs=2", "--metric", "Hamming-loss", "--checkpoint", str(tmp_path / "run"))  # fmt: skip
    assert (tmp_path / "run").exists()
