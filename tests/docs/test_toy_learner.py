"""The learner that the documentation adds: it keeps the laws, trains from disk, and survives a file."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from cli.commands import ok, refused
from reference.random_documents import documents_of

import sdem_dist
from sdem_dist import catalogue, learning_curve, open_corpus, write_corpus
from sdem_dist.testing import check_learner

NAME = "NearestMean"
PAGE = (Path(sdem_dist.__file__).parent / "docs" / "architecture.md").read_text(encoding="utf-8")
FILES = re.findall(r"^```\{code-block\} python\n:caption: (\S+)\.py\n\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def toy() -> Iterator[SimpleNamespace]:
    """Both files of the page, imported under the names that it gives them."""
    made = SimpleNamespace()
    with pytest.MonkeyPatch.context() as patch:
        for path, code in FILES:
            module = ModuleType(path.replace("/", "."))
            patch.setitem(sys.modules, module.__name__, module)
            exec(compile(code, f"{path}.py", "exec"), vars(module))
            vars(made).update(vars(module))
        yield made


@pytest.fixture(scope="module")
def counts() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    return rng.poisson(np.array([[3, 1, 1, 0.5], [1, 3, 1, 0.5], [1, 1, 3, 0.5]])[y]).astype(float), y


def test_it_keeps_the_laws_of_learners(counts, toy):
    check_learner(toy.ClassMeans(4, 3), documents_of(counts[0], counts[1].astype(np.int32)))


def test_memory_disk_and_lanes_agree(counts, tmp_path, toy):
    X, y = counts
    write_corpus(tmp_path / "corpus", X, y)
    in_memory = toy.NearestMean().fit(X, y)
    from_disk = toy.NearestMean(n_lanes=9).fit(open_corpus(tmp_path / "corpus"))
    assert in_memory.score(X, y) > 0.7  # a third by chance
    np.testing.assert_allclose(from_disk._class_scores(X), in_memory._class_scores(X), rtol=1e-12)
    assert in_memory.evaluate(X, y)["accuracy"] == in_memory.score(X, y)


def test_texts(toy):
    texts, y = ["ball goal ball", "money bank", "goal", "bank bank"], ["sport", "money", "sport", "money"]
    assert toy.NearestMean().fit(texts, y).predict(["a goal", "a bank"]).tolist() == ["sport", "money"]


@pytest.fixture
def named(toy, counts, tmp_path, monkeypatch) -> str:
    """A corpus, where the command knows the learner by its name, as its line in the stub would have it."""
    monkeypatch.setitem(catalogue.PUBLIC, NAME, "sdem_dist.estimators.nearest_mean")
    monkeypatch.setattr(catalogue, "ESTIMATORS", (*catalogue.ESTIMATORS, NAME))
    write_corpus(tmp_path / "corpus", *counts)
    return str(tmp_path / "corpus")


def test_curves_of_a_learner_without_a_log_loss(named, toy, counts, tmp_path):
    found = learning_curve(toy.NearestMean(), *counts, shares=(0.5, 1.0), cv=3)
    assert np.isnan(found.log_loss).all() and (found.accuracy > 0.6).all()
    assert "accuracy" in repr(found) and "log-loss" not in repr(found)
    how = ["--estimator", NAME, "--space", "n_lanes=2,4", "--folds", "3", "--metric", "accuracy", "--quiet"]
    said = ok("tune", named, str(tmp_path / "m"), *how, "--curve", str(tmp_path / "c.png"))
    assert " +- " in said and "nan" not in said
    assert (tmp_path / "c.png").stat().st_size


def test_suspects_by_a_classifier_that_draws_nothing(named):
    assert len(ok("suspects", named, "--estimator", NAME, "--json", "-n", "3").splitlines()) == 3
    assert "KMeans" not in refused("suspects", named, "--estimator", NAME, "--set", "random_state=1", code=2)


def test_a_search_without_a_space_names_what_it_could_try(named, tmp_path):
    message = refused("tune", named, str(tmp_path / "m"), "--estimator", NAME)
    assert "--space NAME=A,B" in message and "n_lanes" in message and "alpha" not in message
