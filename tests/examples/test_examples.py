"""Every example runs, on little data, and leaves what it promises."""

from __future__ import annotations

import lzma
import re
import runpy
import sys
from collections.abc import Callable
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
        runpy.run_path(str(FOLDER / name), run_name="__main__")
        return capsys.readouterr().out

    return run_script


@pytest.fixture
def few_docstrings(monkeypatch: pytest.MonkeyPatch) -> None:
    two = {name: docstrings.PACKAGES[name] for name in ("distributed", "zarr")}  # reading all eight takes seconds
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
    assert len(re.findall(r"^  (?:SGD|P1|P2) +lambda", shown, re.MULTILINE)) == 30
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
    accuracy = [float(value) for value in re.findall(r"validation_accuracy (\S+)", shown)]
    assert len(accuracy) == 6
    assert min(accuracy) > 0.6
    for picture in ("figure-9.png", "topics.png"):
        assert (tmp_path / picture).read_bytes().startswith(PNG)
