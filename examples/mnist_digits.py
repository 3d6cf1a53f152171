"""The handwritten digits of MNIST, straightened and cropped, and their features by NMF and PCA (Saul and Lee 2001).

The folder ``mnist`` with the four files of MNIST lies in the folder that the environment variable SDEM_CORPORA names.
"""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SIDE = 20


class Digits(NamedTuple):
    """Rows of features and their digits."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def folder() -> Path:
    """Return where MNIST is, or raise FileNotFoundError."""
    path = Path(os.environ.get("SDEM_CORPORA", ""), "mnist")
    if not (path / "train-images-idx3-ubyte.gz").exists():
        raise FileNotFoundError(
            "set SDEM_CORPORA to a folder that holds mnist/train-images-idx3-ubyte.gz and the others"
        )
    return path


def read(name: str) -> np.ndarray:
    """Return the array of one of MNIST's files."""
    with gzip.open(folder() / name) as file:
        content = file.read()
    n_axes = content[3]
    shape = np.frombuffer(content, ">u4", n_axes, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def straightened(image: np.ndarray) -> np.ndarray:
    """Return an image sheared upright, the centre of mass in the middle of 20 x 20 pixels."""
    from scipy.ndimage import affine_transform

    mass = image / image.sum()
    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]]
    middle = np.array([(mass * rows).sum(), (mass * columns).sum()])
    c11 = (mass * (rows - middle[0]) * (columns - middle[1])).sum()
    c02 = (mass * (rows - middle[0]) ** 2).sum()
    shear = np.array([[1.0, 0.0], [c11 / c02, 1.0]])
    target = np.full(2, (SIDE - 1) / 2)
    return affine_transform(image, shear, middle - shear @ target, output_shape=(SIDE, SIDE), order=1)


def pixels(n_train: int = 60_000, n_test: int = 10_000) -> Digits:
    """Return straightened images as rows of 400 pixels in [0, 1]."""
    parts = []
    for name, n in (("train", n_train), ("t10k", n_test)):
        images = read(f"{name}-images-idx3-ubyte.gz")[:n] / 255.0
        parts += [np.array([straightened(i).ravel() for i in images]).clip(0, 1)]
        parts += [read(f"{name}-labels-idx1-ubyte.gz")[:n].astype(np.int64)]
    return Digits(*parts)


def nmf(digits: Digits, n_features: int = 80, max_iter: int = 200) -> tuple[Digits, np.ndarray]:
    """Return nonnegative features by NMF, and the basis images, each of unit length.

    Training and test images are both transformed by nonnegative least squares, so that both have features of one kind.
    """
    import warnings

    from sklearn.decomposition import NMF

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that 200 iterations are not convergence is known
        model = NMF(n_features, init="nndsvda", solver="cd", max_iter=max_iter, random_state=0).fit(digits.X)
        basis = model.components_
        basis /= np.maximum(np.linalg.norm(basis, axis=1, keepdims=True), 1e-12)
        X, X_test = model.transform(digits.X), model.transform(digits.X_test)
    return digits._replace(X=X, X_test=X_test), basis


def pca(digits: Digits, n_features: int = 40) -> Digits:
    """Return real-valued features by PCA."""
    from sklearn.decomposition import PCA

    model = PCA(n_features, random_state=0).fit(digits.X)
    return digits._replace(X=model.transform(digits.X), X_test=model.transform(digits.X_test))


class Peer(NamedTuple):
    """What another classifier reached on pixels."""

    name: str
    paper: float
    """The test error in per cent that Saul and Lee name for it, of LeCun et al."""
    train: float
    test: float
    kept: int
    """Training digits that it keeps."""
    seconds: float


def peers(raw: Digits) -> Iterator[Peer]:
    """Yield errors in per cent of support vectors and of nearest neighbours."""
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC

    models: dict[str, tuple[Any, float]] = {
        "SVC": (SVC(C=10.0, gamma=0.02), 1.1),
        "nearest neighbours": (KNeighborsClassifier(3, n_jobs=1), 2.4),
    }
    for name, (model, paper) in models.items():
        started = time.perf_counter()
        model.fit(raw.X, raw.y)
        few = slice(None, len(raw.y_test))  # the training error of as many digits: all would take many minutes
        train, test = (100.0 * (1.0 - model.score(*some)) for some in ((raw.X[few], raw.y[few]), raw[2:]))
        kept = len(model.support_) if isinstance(model, SVC) else len(raw.y)
        yield Peer(name, paper, train, test, kept, time.perf_counter() - started)


def cached(where: Path, n_train: int = 60_000, n_test: int = 10_000) -> tuple[Digits, Digits, np.ndarray]:
    """Return NMF features, PCA features and the NMF basis, computed once and kept in a folder."""
    path = Path(where) / f"digits-{n_train}-{n_test}.npz"
    if not path.exists():
        raw = pixels(n_train, n_test)
        by_nmf, basis = nmf(raw)
        by_pca = pca(raw)
        aside = path.with_suffix(".part.npz")
        np.savez(aside, *by_nmf, *by_pca, basis)
        aside.rename(path)
    with np.load(path, allow_pickle=False) as file:
        arrays = [file[f"arr_{i}"] for i in range(9)]
    return Digits(*arrays[:4]), Digits(*arrays[4:8]), arrays[8]
