"""The corpus of docstrings, and `sdem demo`, from nothing to a trained model."""

import subprocess
import sys

import pytest

from sdem_dist import load_model, open_corpus
from sdem_dist.errors import IngestError
from sdem_dist.text import docstrings

LONG = "This long text stands in the source of a package and says what numpy, np.dot and NumPy do for arrays."


def test_docstrings_of_a_package(tmp_path, monkeypatch):
    package = tmp_path / "numpy"
    (package / "sub" / "tests").mkdir(parents=True)
    (package / "a.py").write_text(
        f'"""{LONG} module"""\nif True:\n    class A:\n        """{LONG} class"""\n        async def f(self):\n'
        f'            """{LONG} method"""\n            return lambda: 1 if 2 else 3\n    def g():\n        """Short."""\n'
        f'try:\n    pass\nexcept ValueError:\n    def h():\n        r"""{LONG} method"""\n'
    )
    (package / "b.py").write_text("this is no python")
    (package / "sub" / "c.py").write_text(f'def f():\n    """{LONG} last"""\n')
    (package / "sub" / "tests" / "d.py").write_text(f'def f():\n    """{LONG} test"""\n')

    class Spec:
        submodule_search_locations = (str(package),)

    monkeypatch.setattr(docstrings, "PACKAGES", {"numpy": ("numpy", "np")})
    monkeypatch.setattr(docstrings.importlib.util, "find_spec", lambda name: Spec if name == "numpy" else None)
    texts, labels = docstrings.collect_docstrings()
    assert [t.rsplit(" ", 1)[1] for t in texts] == ["module", "class", "method", "last"]
    assert labels == ["numpy"] * 4
    assert texts[0] == LONG.replace("numpy", "").replace("np", "").replace("NumPy", "") + " module"
    monkeypatch.setattr(docstrings, "PACKAGES", {"absent": ("absent",)})
    with pytest.raises(IngestError, match="pip install"):
        docstrings.collect_docstrings()


@pytest.mark.slow
def test_the_docstrings_tell_their_packages_apart():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    texts, labels = docstrings.collect_docstrings()
    assert set(labels) == set(docstrings.PACKAGES) and len(texts) == len(set(zip(texts, labels, strict=True))) > 8000
    train, test, y, y_test = train_test_split(texts, labels, test_size=0.2, random_state=0)
    assert 0.8 < make_pipeline(CountVectorizer(min_df=2), MultinomialNB()).fit(train, y).score(test, y_test) < 0.95


@pytest.mark.slow
def test_demo_end_to_end(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", "from sdem_dist.cli import main; main()", "demo", "--epochs", "3"],
        cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    folder = tmp_path / "sdem-demo"
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    test = open_corpus(folder / "docstrings-held-out.zarr")
    assert len(test.header.classes) == 8
    for loss in ("nll", "ncll", "hinge"):
        accuracy = load_model(folder / f"{loss}.model").evaluate(test)["accuracy"]
        assert accuracy > 0.7
        assert f"{accuracy:.4f}" in result.stdout and loss.upper() in result.stdout
    for said in (
        "accuracy",
        "perplexity",
        "cannot be compared",
        "documents/s",
        "words that speak most",
        "sdem predict",
    ):
        assert said in result.stdout
