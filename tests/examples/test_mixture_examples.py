"""The examples of mixtures run, on little data, and leave what they promise."""

from __future__ import annotations

import gzip
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples"


def run(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], out: Path) -> str:
    monkeypatch.setattr(sys, "argv", [name, "--quick", "--out", str(out)])
    monkeypatch.syspath_prepend(str(FOLDER))
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    return capsys.readouterr().out


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


def test_table_1(monkeypatch, capsys, tmp_path):
    write_digits(tmp_path / "mnist")
    monkeypatch.setenv("SDEM_CORPORA", str(tmp_path))
    shown = run("mixtures_table_1.py", monkeypatch, capsys, tmp_path / "out")
    rows = re.findall(r"^\| (\S+) \| (\d) \| \S+ / \S+ \| (\S+) / (\S+) \|", shown, re.MULTILINE)
    assert [(name, m) for name, m, *_ in rows] == [
        (name, m) for name in ("EM-PCA40", "EM-NMF80", "DT-NMF80", "defaults") for m in "12"
    ]
    assert all(float(train) < 60 for *_, train, _ in rows)
    assert (tmp_path / "out" / "mixtures-figure-1.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


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


def test_nmf_of_a_corpus(monkeypatch, capsys, tmp_path):
    shown = run("nmf_of_a_corpus.py", monkeypatch, capsys, tmp_path)
    assert run("nmf_of_a_corpus.py", monkeypatch, capsys, tmp_path) == shown  # in the same folder again
    accuracies = [float(a) for a in re.findall(r"accuracy (\S+) on", shown)]
    assert len(accuracies) == 2 and min(accuracies) > 0.8
