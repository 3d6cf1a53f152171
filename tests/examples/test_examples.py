"""Every example runs, on little data, and leaves what it promises."""

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

FOLDER = Path(__file__).parents[2] / "examples"
CLASSES = ("neg", "pos")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run_script(name: str, *arguments: str | Path) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        monkeypatch.syspath_prepend(str(FOLDER))
        runpy.run_path(str(FOLDER / name), run_name="__main__")
        return capsys.readouterr().out

    return run_script


def sentences(seed: int) -> list[tuple[str, str]]:
    """Return 90 labelled documents whose classes have words of their own, and share others."""
    draw = np.random.default_rng(seed)
    return [(c, " ".join(f"{w}{draw.integers(12)}" for w in draw.choice([c, "and"], size=15))) for c in CLASSES * 45]


def stars(seed: int) -> list[str]:
    """Return reviews whose words hang on their stars."""
    draw, lines = np.random.default_rng(seed), list[str]()
    for i in range(250):
        n = int(draw.integers(1, 11))
        words = draw.choice(["good", "bad", "film"], 30, p=[n / 20, 0.5 - n / 20, 0.5])
        numbered = " ".join(f"{w}{draw.integers(9)}" for w in words)
        lines.append(f"{CLASSES[n > 5]}\t{n}\t{i}\t{numbered}<br />end\n")
    return lines


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return folders with the corpora that scripts read, made here: by classes, by stars, and digits."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("classes", "stars", "digits")}
    for part, seed in (("train", 1), ("test", 2)):
        rows = sentences(seed)
        stemmed = [f"{label}\t{text}\n" for label, text in rows]
        files = {f"classes/cachopo/{name}-{part}-stemmed.derived.txt.xz": stemmed for name in ("20ng", "r52")}
        files |= {f"classes/cachopo/{name}-{part}-stemmed.txt.xz": stemmed for name in ("r8", "webkb")}
        files[f"classes/imdb/imdb-{part}.tsv.xz"] = [f"{y}\t5\t{i}\t{text}\n" for i, (y, text) in enumerate(rows)]
        files[f"stars/imdb/imdb-{part}.tsv.xz"] = stars(seed)
        for name, lines in files.items():
            kind, _, rest = name.partition("/")
            path = folders[kind] / rest
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(lzma.compress("".join(lines).encode()))
    write_digits(folders["digits"] / "mnist")
    return folders


TOMOTOPY = find_spec("tomotopy") is not None
Pattern = tuple[str, int] | tuple[str, int, float, float]
"""What is printed, how often, and between which numbers those lie that it has; -1: at least once."""
SCRIPTS: dict[str, tuple[str, tuple[str, ...], list[Pattern]]] = {
    "first_steps.py": ("", ("speeches.model",), [
        (r"^(?:nll|ncll|hinge) +(\S+)", 3, 0.5, 1.0), (r"the same after loading: True", 1)]),
    "pictures.py": ("", ("training.png", "confusions.png", "probabilities.png", "words.png"), [
        (r"\b1790-1829\b", -1), (r"\b1950-1989\b", -1)]),
    "corpus_on_dask.py": ("", (), [(r"interrupted in epoch 2", 1), (r"without: (\S+) \1$", 1)]),
    "naive_bayes_convergence.py": ("classes", ("naive-bayes-ncll.png", "naive-bayes-hinge.png"), [
        (r"^(?:20ng|r52) +(?:ncll|hinge) (?:P1|P2) +(\S+)", 8, 0.9, 1.0)]),
    "against_sgd.py": ("classes", ("against-sgd-ncll.png", "against-sgd-hinge.png"), [
        (r"^  (?:SGD|P1|P2) +lambda", 14)]),
    "topics_of_classes.py": ("classes", ("figure-4.png", "figure-9.png", "topics.png"), [
        (r"LDA +accuracy (\S+)", 6 + 2 * TOMOTOPY, 0.6, 1.0)]),
    "toy_gaussian.py": ("", ("toy-gaussian.png",), [
        (r"(0\.\d+)$", 5, 0.77, 1.0), (r"0\.7[7-9]\d*$|0\.8[01]\d*$", 1), (r"(0\.9[1-9]\d*)$", 4)]),
    "mixtures_table_1.py": ("digits", ("mixtures-figure-1.png",), [
        (r"^\| (?:EM-PCA40|EM-NMF80|DT-NMF80|defaults) \| [12] \| \S+ / \S+ \| (\S+) / \S+ \|", 8, 0, 60),
        (r"^\| (?:SVC|nearest neighbours) \| [\d,]+ digits kept \|", 2), (r"A part of the table: 2,000 digits", 1)]),
    "sparse_features.py": ("digits", ("sparse-features.png",), [
        (r"^\| mixture, M = 8, (?:pixels|NMF features) \| [\d.]+ \|", 2), (r"^\| SVC, pixels \| ([\d.]+) \|", 1, 0, 60),
        (r"^\| (?:SVC|nearest neighbours), pixels \| [\d.]+ \|", 2)]),
    "nmf_of_a_corpus.py": ("", (), [(r"accuracy (\S+) on", 2, 0.8, 1.0)]),
    "supervised_topics.py": ("stars", ("supervised-topics.png", "supervised-topics-words.png"), [
        (r"^AUC over topics, BP-sLDA: \{5: ([\d.]+)", 1, 0.9, 1.0), (r"AUC over topics, MLP 200 x 200", 1),
        (r"^R2 over topics, BP-sLDA: \{5: ([\d.]+)", 1, 0.3, 1.0), (r"R2 over topics, sLDA", int(TOMOTOPY)),
        (r"topic of", -1)]),
}  # fmt: skip
"""By script: the corpora that it reads, the files that it promises, and what it prints."""


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_runs_on_little_data(script, run, corpora, tmp_path, monkeypatch):
    kind, files, patterns = SCRIPTS[script]
    if kind:
        monkeypatch.setenv("SDEM_CORPORA", str(corpora[kind]))
    where = ["--corpora", corpora[kind]] if kind in ("classes", "stars") else []
    shown = run(script, "--quick", *where, "--out", tmp_path)
    if script == "nmf_of_a_corpus.py":
        assert run(script, "--quick", "--out", tmp_path) == shown, "in the same folder again"
    for name in files:
        content = (tmp_path / name).read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n") if name.endswith(".png") else content
    for pattern, times, *bounds in patterns:
        printed = re.findall(pattern, shown, re.MULTILINE)
        assert len(printed) == times if times >= 0 else printed, (pattern, shown)
        assert not bounds or all(bounds[0] <= float(number) <= bounds[1] for number in printed), (pattern, printed)


@pytest.mark.slow
def test_your_own_family(run, tmp_path):
    shown = run("your_own_family.py", "--quick", "--out", tmp_path)
    assert "passes all checks" in shown and "the same after loading: True" in shown
    accuracy = dict(re.findall(r"^(nll|ncll|hinge) +accuracy (\S+)", shown, re.MULTILINE))
    assert float(accuracy["ncll"]) > float(accuracy["nll"])


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


def write_digits(where: Path) -> None:
    """Write files of MNIST's format: slanted strokes, whose side says which digit they are to be."""
    where.mkdir()
    rng = np.random.default_rng(0)
    for name, n in (("train", 150), ("t10k", 40)):
        labels, images = np.arange(n, dtype=np.uint8) % 10, np.zeros((n, 28, 28), np.uint8)
        rows = np.arange(6, 22)
        for image, label in zip(images, labels, strict=True):
            image[rows, np.rint(14 + rng.normal(scale=0.2) * (rows - 14)).astype(int)] = 255
            image[6 + label, 14 : 14 + 6] = 255
            image[6 + label + 1, 14 : 14 + 6] = 200
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            shape = np.array(array.shape, ">u4").tobytes()
            with gzip.open(where / f"{name}-{kind}-ubyte.gz", "wb") as file:
                file.write(bytes([0, 0, 8, array.ndim]) + shape + array.tobytes())


def test_mlflow_runs(run, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    assert "finished: hinge" in run("mlflow_runs.py", "--quick", "--out", tmp_path)
    (logged,) = mlflow.search_runs(search_all_experiments=True, output_format="list")
    assert logged.data.params["estimator"] == "GaussianNB" and any("/" in name for name in logged.data.metrics)
