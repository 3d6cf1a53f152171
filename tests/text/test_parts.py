"""Pieces on their own: who is held out, and the corpus of docstrings."""

import numpy as np
import pytest

from sdem_dist import ingest, open_corpus
from sdem_dist.errors import IngestError
from sdem_dist.text import docstrings


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
def test_who_is_held_out(fraction, tmp_path):
    """A share of the documents, neighbours, seeds and sources independently, however the source is cut."""
    for name in ("s.tsv", "t.tsv"):
        (tmp_path / name).write_text("".join(f"{'ab'[i % 2]}\tgoal w{i % 9}\n" for i in range(4000)))
    masks = []
    for seed, block in ((0, 10_000), (0, 77), (1, 10_000)):
        how = {"random_state": seed, "block_documents": block, "overwrite": True, "held_out": fraction}
        ingest([tmp_path / "s.tsv", tmp_path / "t.tsv"], tmp_path / "c", **how)
        held = open_corpus(tmp_path / "c-held-out")
        masks.append(np.isin(np.arange(8000), held.ids_of(0, held.n_documents)))
    np.testing.assert_array_equal(masks[0], masks[1])
    first, second = masks[0][:4000], masks[0][4000:]
    assert abs(masks[0].mean() - fraction) < 0.03
    for one, other in ((first[1:], first[:-1]), (first, second), (masks[0], masks[2])):
        assert abs((one & other).mean() - fraction**2) < 0.03


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
