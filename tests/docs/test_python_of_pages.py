"""Python that pages show does what they say, and the learner of architecture.md is one."""

import asyncio
import doctest
import json
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from cli.commands import ok, refused
from reference.random_documents import documents_of

import sdem_dist
import sdem_dist as sd
from sdem_dist import catalogue, learning_curve, open_corpus, write_corpus
from sdem_dist.catalogue import ESTIMATORS, PUBLIC
from sdem_dist.cluster import connected
from sdem_dist.testing import check_learner

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUN_ELSEWHERE = {"tutorial.md", "your-data.md", "coming-from.md"}  # with what they print: test_printed.py
SOURCES = [
    ROOT / "README.md",
    *sorted(p for p in (ROOT / "sdem_dist/docs").rglob("*.md") if p.name not in RUN_ELSEWHERE),
]
PAGES = {str(page.relative_to(ROOT)): BLOCK.findall(page.read_text("utf-8")) for page in SOURCES}
SLOW = ("guide/tuning.md", "guide/clusters.md", "guide/topics.md", "guide/train.md")
WORDS = {"money": ["bank", "market", "share", "price", "profit"], "sport": ["goal", "match", "team", "minute", "last"]}


def documents(n: int, seed: int) -> tuple[list[str], list[str]]:
    rng, labels = np.random.default_rng(seed), [["money", "sport"][i % 2] for i in range(n)]
    common = [f"word{i}" for i in range(30)]
    return [" ".join(rng.choice(WORDS[label] + common[: 10 + i % 20], 10)) for i, label in enumerate(labels)], labels


def of_texts(folder: Path) -> dict[str, object]:
    """Return what pages about texts and counts speak of, and write the files that they name."""
    texts, labels = documents(400, 0)
    clf = sd.MultinomialNB(n_epochs=2).fit(texts, labels)
    X, y = clf.vectorize(texts), np.array(labels)
    (folder / "posts.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(labels, texts, strict=True)))
    sd.ingest(folder / "posts.tsv", folder / "ready.zarr")
    for name in ("january", "february"):
        sd.write_corpus(folder / f"{name}.zarr", sp.vstack([X] * 15), np.tile(y, 15))
    half, stars = np.where(np.arange(400) % 5 > 2, -1, (y == "sport").astype(int)), np.arange(400) % 5
    return {
        "sd": sd, "np": np, "texts": texts, "labels": labels, "new_texts": texts[:5], "clf": clf,
        "test_texts": texts[:50], "test_labels": labels[:50], "X_test": texts[:50], "y_test": labels[:50],
        "X": X, "y": y, "X_new": X[:9], "counts": X, "stars": stars, "half": half,
        "X_1": X[:200], "y_1": y[:200], "X_2": X[200:], "y_2": y[200:], "texts_1": texts, "labels_1": labels,
        "label_lists": [[a] for a in labels], "table": np.random.default_rng(0).normal(size=(400, 3)) ** 2,
        "corpus": sd.open_corpus(folder / "ready.zarr"),
    }  # fmt: skip


def of_topics(folder: Path) -> dict[str, object]:
    found = of_texts(folder)
    labels, half = found["labels"], found["half"]
    return of_tables(folder) | found | {"y": half, "labels": half, "labels_1": labels} | {
        "replies": np.array([1 + 2 * (label == "sport") for label in labels]),
        "label_lists": [[label] if i % 3 else [label, "third"] for i, label in enumerate(labels)],
    }  # fmt: skip


def of_tables(folder: Path) -> dict[str, object]:
    rng, y = np.random.default_rng(0), np.arange(300) % 2
    columns = {"age": rng.normal(40 + 9 * y, 5), "visits": rng.poisson(1.0 + 3 * y)}
    frame = pd.DataFrame({**columns, "city": np.where(y, "Rome", "Oslo")})
    X = rng.normal(size=(300, 4))
    gaps = np.where(rng.random((9, 4)) < 0.3, np.nan, X[:9])
    return {"sd": sd, "frame": frame, "frame_new": frame[:20], "y": y, "y_new": y[:20], "X": X, "X_with_nans": gaps}


def of_numbers(folder: Path) -> dict[str, object]:
    found = of_texts(folder)
    X = np.random.default_rng(0).normal(size=(100, 3))
    return found | {"X": X, "regressor": sd.GaussianRegressor().fit(X, X @ [1.0, 2.0, 3.0])}


def of_clusters(folder: Path) -> dict[str, object]:
    found, tables = of_texts(folder), of_tables(folder)
    frame = dd.from_pandas(tables["frame"], npartitions=2)
    labels = dd.from_pandas(pd.Series(tables["y"], name="label"), npartitions=2)
    X, y = found["X"], found["y"]
    return found | {
        "dask_array": da.from_array(X.toarray(), chunks=(100, -1)), "dask_labels": da.from_array(y, chunks=100),
        "dask_frame": frame, "dask_series": labels, "client": None,
        "bag_of_batches": db.from_sequence([(X[:200], y[:200]), (X[200:], y[200:])], npartitions=2),
    }  # fmt: skip


def of_serving(folder: Path) -> dict[str, object]:
    from sdem_dist.export import save_onnx

    found = of_texts(folder)
    save_onnx(found["clf"], folder / "posts.onnx")
    found["clf"].save(folder / "posts.model")
    return found | {"onnxruntime": pytest.importorskip("onnxruntime")}


MADE = {
    "guide/explain.md": of_numbers, "guide/tables.md": of_tables, "guide/topics.md": of_topics,
    "guide/clusters.md": of_clusters, "guide/serve.md": of_serving, "guide/incremental.md": of_topics,
}  # fmt: skip
RUN = [pytest.param(page, marks=[pytest.mark.slow] * page.endswith(SLOW)) for page, blocks in PAGES.items() if blocks]


@pytest.mark.parametrize("page", RUN)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make = next((make for name, make in MADE.items() if page.endswith(name)), of_texts)
    names: dict[str, object] = {"__name__": "__main__"} | make(tmp_path)
    if page in ("README.md", "sdem_dist/docs/guide/index.md"):
        shutil.copytree(ROOT / "sdem_dist/data", tmp_path, dirs_exist_ok=True)
    with ExitStack() as stack:
        for number, block in enumerate(PAGES[page]):
            if "from dask_gateway" in block:  # needs a server: tests/cluster/test_gateway.py has one
                continue
            exec(compile(block.replace('"/shared/', f'"{tmp_path}/'), page, "exec"), names)
            if number == 0 and page.endswith("clusters.md"):  # whose first block ended its own client
                names["client"] = stack.enter_context(connected(n_workers=1))


def answer_of(app, body: bytes) -> tuple[int, object]:
    """Return the status and the JSON that an ASGI application sends for a body in two parts."""
    parts = iter([{"body": body[:3], "more_body": True}, {"body": body[3:]}])
    sent = []

    async def receive():
        return next(parts)

    async def send(message):
        sent.append(message)

    asyncio.run(app({"type": "http"}, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_the_server_of_the_guide_answers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = of_texts(tmp_path)
    made["clf"].save("posts.model")
    (block,) = (b for b in PAGES["sdem_dist/docs/guide/serve.md"] if "async def app" in b)
    names: dict[str, object] = {}
    exec(compile(block, "serve.md", "exec"), names)
    texts = ["goal in the last minute", "größe", ""]
    status, found = answer_of(names["app"], json.dumps(texts).encode())
    assert status == 200
    assert [list(row.values()) for row in found] == made["clf"].predict_proba(texts).tolist()
    assert list(found[0]) == ["money", "sport"]
    for wrong in (b"no JSON", b'"one text"', b"[]", b"[5]", b"[null]", b"{}", b"null", b"5", b"true", b"[[1, 2]]"):
        status, said = answer_of(names["app"], wrong)
        assert status == 400 and isinstance(said, str), wrong


def test_pages_have_python():
    assert sum(map(len, PAGES.values())) > 20 and len(RUN) > 10


def examples_of(name: str) -> list[doctest.DocTest]:
    thing = getattr(sdem_dist, name)
    found = doctest.DocTestFinder(recurse=False).find(thing, name, module=import_module(PUBLIC[name]), globs={})
    return [test for test in found if test.examples]


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_examples_say_what_happens(name):
    said: list[str] = []
    for test in examples_of(name):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
        assert not failed, "".join(said)


@pytest.mark.parametrize("name", [*ESTIMATORS, "ingest", "load_model", "cluster_scores"])
def test_every_estimator_has_an_example(name):
    assert examples_of(name)


NAME = "NearestMean"
ARCHITECTURE = (Path(sdem_dist.__file__).parent / "docs" / "architecture.md").read_text(encoding="utf-8")
FILES = re.findall(r"(?ms)^```\{code-block\} python\n:caption: (\S+)\.py\n\n(.*?)^```", ARCHITECTURE)


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
    rng, y = np.random.default_rng(0), np.arange(300) % 3
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
    assert "KMeans" not in refused("suspects", named, "--estimator", NAME, "--set", "n_clusters=1", code=2)


def test_a_search_without_a_space_names_what_it_could_try(named, tmp_path):
    message = refused("tune", named, str(tmp_path / "m"), "--estimator", NAME)
    assert "--space NAME=A,B" in message and "n_lanes" in message and "alpha" not in message
