"""``sdem inspect`` and ``sdem evaluate`` of mixtures."""

from __future__ import annotations

import numpy as np
import pytest
from cli.commands import ok

from sdem_dist import MultinomialMixture, MultiplicativeMixtureClassifier, SdemMixtureClassifier, write_corpus


@pytest.mark.parametrize(
    ("model", "said", "metric"),
    [
        (MultinomialMixture(2, n_init=2, n_epochs=2), ("MultinomialMixture", "clusters"), "perplexity"),
        (MultiplicativeMixtureClassifier(2, n_epochs=3), ("MultiplicativeMixtureClassifier", "classes"), "accuracy"),
        (
            SdemMixtureClassifier(2, components="multinomial", n_epochs=2),
            ("SdemMixtureClassifier, loss ncll", "classes"),
            "accuracy",
        ),
    ],
    ids=["clusters", "multiplicative", "sdem"],
)
def test_inspect_and_evaluate(model, said, metric, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    corpus = write_corpus(tmp_path / "c", rng.poisson(1.0 + 4.0 * (y[:, None] == np.arange(6) % 2)), y)
    model.fit(corpus).save(tmp_path / "m")
    shown = ok("inspect", tmp_path / "m")
    assert all(words in shown for words in said)
    scored = ok("evaluate", tmp_path / "m", tmp_path / "c")
    assert metric in scored
    assert ("purity" in scored) == (metric == "perplexity")  # of clusters, where labels are known
    if metric == "perplexity":
        found = model.evaluate(corpus)
        known = model.report(corpus).figures
        assert {name: found[name] for name in ("purity", "nmi", "ari")} == known
        documents = corpus.read(0, 60).to_csr()
        assert "purity" not in model.evaluate(documents)
        assert model.evaluate(documents, corpus.labels())["nmi"] == known["nmi"]
