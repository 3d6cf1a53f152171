"""Every example runs, on little data, and leaves what it promises."""

from __future__ import annotations

import gzip
import lzma
import re
import runpy
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from sdem_dist.text import docstrings

FOLDER = Path(__file__).parents[2] / "examples"
PNG = b"\x89PNG\r\n\x1a\n"
CLASSES = ("neg", "pos")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run_script(name: str, *arguments: str | Path) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        monkeypatch.syspath_prepend(str(FOLDER))
        runpy.run_path(str(FOLDER / name), run_name="__main__")
        return capsys.readouterr().out

    return run_script


@pytest.fixture
def few_docstrings(monkeypatch: pytest.MonkeyPatch) -> None:
    two = {name: docstrings.PACKAGES[name] for name in ("distributed", "rich")}  # reading all eight takes seconds
    monkeypatch.setattr(docstrings, "PACKAGES", two)


def sentences(seed: int) -> list[tuple[str, str]]:
    """Return 90 labelled documents whose classes have words of their own, and share others."""
    draw = np.random.default_rng(seed)
    return [
        (name, " ".join(f"{w}{draw.integers(12)}" for w in draw.choice([name, "and"], size=15)))
        for name in CLASSES * 45
    ]


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    for part, seed in (("train", 1), ("test", 2)):
        rows = sentences(seed)
        stemmed = "".join(f"{label}\t{text}\n" for label, text in rows)
        reviews = "".join(f"{label}\t5\t{i}\t{text}\n" for i, (label, text) in enumerate(rows))
        for name, content in (
            (f"cachopo/20ng-{part}-stemmed.derived.txt.xz", stemmed),
            (f"cachopo/r52-{part}-stemmed.derived.txt.xz", stemmed),
            (f"cachopo/r8-{part}-stemmed.txt.xz", stemmed),
            (f"cachopo/webkb-{part}-stemmed.txt.xz", stemmed),
            (f"imdb/imdb-{part}.tsv.xz", reviews),
        ):
            path = tmp_path / "corpora" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(lzma.compress(content.encode()))
    return tmp_path / "corpora"


@pytest.mark.usefixtures("few_docstrings")
def test_first_steps(run: Callable[..., str], tmp_path: Path) -> None:
    shown = run("first_steps.py", "--quick", "--out", tmp_path)
    accuracy = {loss: float(value) for loss, value in re.findall(r"^(nll|ncll|hinge) +(\S+)", shown, re.MULTILINE)}
    assert set(accuracy) == {"nll", "ncll", "hinge"}
    assert min(accuracy.values()) > 0.5
    assert "the same after loading: True" in shown
    assert (tmp_path / "docstrings.model").stat().st_size > 0


@pytest.mark.usefixtures("few_docstrings")
def test_pictures(run: Callable[..., str], tmp_path: Path) -> None:
    shown = run("pictures.py", "--quick", "--out", tmp_path)
    assert {"rich", "distributed"} <= set(shown.split())
    for picture in ("training", "confusions", "probabilities", "words"):
        assert (tmp_path / f"{picture}.png").read_bytes().startswith(PNG)


@pytest.mark.usefixtures("few_docstrings")
def test_corpus_on_dask(run: Callable[..., str], tmp_path: Path) -> None:
    shown = run("corpus_on_dask.py", "--quick", "--out", tmp_path)
    assert "cut off in epoch 2" in shown
    on_dask, alone = shown.split("without: ")[1].split()
    assert on_dask == alone


def test_naive_bayes_convergence(run: Callable[..., str], corpora: Path, tmp_path: Path) -> None:
    shown = run("naive_bayes_convergence.py", "--quick", "--corpora", corpora, "--out", tmp_path)
    trained = re.findall(r"^(20ng|r52) +(ncll|hinge) (P1|P2) +(\S+)", shown, re.MULTILINE)
    assert len(trained) == 8
    assert min(float(accuracy) for *_, accuracy in trained) > 0.9
    for loss in ("ncll", "hinge"):
        assert (tmp_path / f"naive-bayes-{loss}.png").read_bytes().startswith(PNG)


def test_against_sgd(run: Callable[..., str], corpora: Path, tmp_path: Path) -> None:
    shown = run("against_sgd.py", "--quick", "--corpora", corpora, "--out", tmp_path)
    assert len(re.findall(r"^  (?:SGD|P1|P2) +lambda", shown, re.MULTILINE)) == 14
    for loss in ("ncll", "hinge"):
        assert (tmp_path / f"against-sgd-{loss}.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("rate", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize(("loss", "gradient"), [("hinge", 1.0), ("log_loss", 0.5)])
def test_sgd_has_bottous_schedule(loss: str, gradient: float, rate: float) -> None:
    model = runpy.run_path(str(FOLDER / "against_sgd.py"))["bottou"](loss, rate).set_params(fit_intercept=False)
    model.partial_fit([[1.0, 0.0]], ["pos"], classes=CLASSES)
    model.partial_fit(np.zeros((4999, 2)), np.resize(CLASSES, 4999))  # documents without words only count
    decayed = model.coef_[0, 0]
    model.partial_fit([[0.0, 1.0]], ["pos"])
    assert decayed == pytest.approx(gradient * rate, rel=0.1 if rate == 1e-1 else 0.01)
    assert model.coef_[0, 1] == pytest.approx(gradient * rate / (1 + rate * 1e-4 * 5000), rel=1e-9)


def test_topics_of_classes(run: Callable[..., str], corpora: Path, tmp_path: Path) -> None:
    shown = run("topics_of_classes.py", "--quick", "--corpora", corpora, "--out", tmp_path)
    accuracy = [float(value) for value in re.findall(r"LDA +accuracy (\S+)", shown)]
    assert len(accuracy) == 6 + 2 * (find_spec("tomotopy") is not None)
    assert min(accuracy) > 0.6
    for picture in ("figure-4.png", "figure-9.png", "topics.png"):
        assert (tmp_path / picture).read_bytes().startswith(PNG)


def test_toy_gaussian(run, tmp_path):
    shown = run("toy_gaussian.py", "--quick", "--out", tmp_path)
    accuracy = [float(a) for a in re.findall(r"(0\.\d+)$", shown, re.MULTILINE)]
    assert accuracy[0] == pytest.approx(0.79, abs=0.02)
    assert len(accuracy) == 5
    assert min(accuracy[1:]) >= 0.91
    assert (tmp_path / "toy-gaussian.png").read_bytes().startswith(PNG)


@pytest.mark.slow
def test_your_own_family(run, tmp_path):
    shown = run("your_own_family.py", "--quick", "--out", tmp_path)
    assert "obeys the laws" in shown
    accuracy = dict(re.findall(r"^(nll|ncll|hinge) +accuracy (\S+)", shown, re.MULTILINE))
    assert float(accuracy["ncll"]) > float(accuracy["nll"])
    assert "the same after loading: True" in shown


def write_digits(where: Path) -> None:
    """Write files of MNIST's format: slanted strokes, whose side says which digit they are to be."""
    where.mkdir()
    rng = np.random.default_rng(0)
    for name, n in (("train", 300), ("t10k", 60)):
        labels = np.arange(n, dtype=np.uint8) % 10
        images = np.zeros((n, 28, 28), np.uint8)
        rows = np.arange(6, 22)
        for image, label in zip(images, labels, strict=True):
            slant = rng.normal(scale=0.2)
            image[rows, np.rint(14 + slant * (rows - 14)).astype(int)] = 255
            image[6 + label, 14 : 14 + 6] = 255
            image[6 + label + 1, 14 : 14 + 6] = 200
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            shape = np.array(array.shape, ">u4").tobytes()
            with gzip.open(where / f"{name}-{kind}-ubyte.gz", "wb") as file:
                file.write(bytes([0, 0, 8, array.ndim]) + shape + array.tobytes())


def test_table_1(run, monkeypatch, tmp_path):
    write_digits(tmp_path / "mnist")
    monkeypatch.setenv("SDEM_CORPORA", str(tmp_path))
    shown = run("mixtures_table_1.py", "--quick", "--out", tmp_path / "out")
    rows = re.findall(r"^\| (\S+) \| (\d) \| \S+ / \S+ \| (\S+) / (\S+) \|", shown, re.MULTILINE)
    assert [(name, m) for name, m, *_ in rows] == [
        (name, m) for name in ("EM-PCA40", "EM-NMF80", "DT-NMF80", "defaults") for m in "12"
    ]
    assert all(float(train) < 60 for *_, train, _ in rows)
    assert len(re.findall(r"^\| (?:SVC|nearest neighbours) \| [\d,]+ digits kept \|", shown, re.MULTILINE)) == 2
    assert "A part of the table: 2,000 digits" in shown
    assert (tmp_path / "out" / "mixtures-figure-1.png").read_bytes().startswith(PNG)


def test_sparse_features(run, tmp_path, monkeypatch):
    write_digits(tmp_path / "mnist")
    monkeypatch.setenv("SDEM_CORPORA", str(tmp_path))
    shown = run("sparse_features.py", "--quick", "--out", tmp_path / "out")
    errors = dict(re.findall(r"^\| ([^|]+) \| ([\d.]+) \|", shown, re.MULTILINE))
    assert set(errors) == {
        "mixture, M = 8, pixels",
        "mixture, M = 8, NMF features",
        "SVC, pixels",
        "nearest neighbours, pixels",
    }
    assert float(errors["SVC, pixels"]) < 60
    assert (tmp_path / "out" / "sparse-features.png").read_bytes().startswith(PNG)


def test_straightened_digits_stand_upright_in_the_middle(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import mnist_digits

    image = np.zeros((28, 28))
    rows = np.arange(5, 20)
    image[rows, 20 - rows // 2] = 1.0
    upright = mnist_digits.straightened(image)
    mass = upright / upright.sum()
    at = np.mgrid[:20, :20]
    middle = (mass * at).sum(axis=(1, 2))
    np.testing.assert_allclose(middle, 9.5, atol=0.3)
    assert abs((mass * (at[0] - middle[0]) * (at[1] - middle[1])).sum()) < 0.3  # of 5.6 before


def test_nmf_of_a_corpus(run, tmp_path):
    shown = run("nmf_of_a_corpus.py", "--quick", "--out", tmp_path)
    assert run("nmf_of_a_corpus.py", "--quick", "--out", tmp_path) == shown  # in the same folder again
    accuracies = [float(a) for a in re.findall(r"accuracy (\S+) on", shown)]
    assert len(accuracies) == 2 and min(accuracies) > 0.8


def test_supervised_topics(run, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "imdb").mkdir()
    for part in ("train", "test"):
        lines = []
        for i in range(400):
            stars = int(rng.integers(1, 11))
            words = rng.choice(["good", "bad", "film"], 30, p=[stars / 20, 0.5 - stars / 20, 0.5])
            numbered = " ".join(f"{w}{rng.integers(9)}" for w in words)
            lines.append(f"{'pos' if stars > 5 else 'neg'}\t{stars}\t{i}\t{numbered}<br />end\n")
        (tmp_path / f"imdb/imdb-{part}.tsv.xz").write_bytes(lzma.compress("".join(lines).encode()))
    shown = run("supervised_topics.py", "--quick", "--corpora", tmp_path, "--out", tmp_path)
    found = dict(re.findall(r"^(AUC|R2) over topics, BP-sLDA: \{5: ([\d.]+)", shown, re.MULTILINE))
    assert float(found["AUC"]) > 0.9
    assert float(found["R2"]) > 0.3
    assert "topic of" in shown
    assert "AUC over topics, MLP 200 x 200" in shown
    assert ("R2 over topics, sLDA" in shown) == (find_spec("tomotopy") is not None)
    for picture in ("supervised-topics.png", "supervised-topics-words.png"):
        assert (tmp_path / picture).read_bytes().startswith(PNG)


def test_mlflow_runs(run, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    assert "finished: hinge" in run("mlflow_runs.py", "--quick", "--out", tmp_path)
    (logged,) = mlflow.search_runs(search_all_experiments=True, output_format="list")
    assert logged.data.params["estimator"] == "GaussianNB" and any("/" in name for name in logged.data.metrics)
