"""``sdem inspect`` and ``sdem evaluate`` of mixtures."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from sdem_dist import MultinomialMixture, MultiplicativeMixtureClassifier, SdemMixtureClassifier, write_corpus
from sdem_dist.cli import main


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
    shown = CliRunner().invoke(main, ["inspect", str(tmp_path / "m")])
    assert shown.exit_code == 0, shown.output
    assert all(words in shown.output for words in said)
    scored = CliRunner().invoke(main, ["evaluate", str(tmp_path / "m"), str(tmp_path / "c")])
    assert scored.exit_code == 0 and metric in scored.output
    assert ("purity" in scored.output) == (metric == "perplexity")  # of clusters, where labels are known
    if metric == "perplexity":
        found = model.evaluate(corpus)
        known = model.report(corpus).figures
        assert {name: found[name] for name in ("purity", "nmi", "ari")} == known
        documents = corpus.read(0, 60).to_csr()
        assert "purity" not in model.evaluate(documents)
        assert model.evaluate(documents, corpus.labels())["nmi"] == known["nmi"]
