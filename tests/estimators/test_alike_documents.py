import numpy as np
import pytest

from sdem_dist import MultinomialNB


@pytest.mark.parametrize("shift", [0.2, 0.5])
def test_documents_that_hold_all_words_in_nearly_equal_shares_are_told_apart(shift):
    """Steps in units of the margin left S here: the total took back what the words had moved, and predictions were chance."""
    rng = np.random.default_rng(0)
    words = rng.dirichlet(np.full(12, 20.0))
    classes = words * np.exp(rng.normal(size=(3, 12)) * shift)
    y = rng.integers(0, 3, 800)
    X = np.array([rng.multinomial(400, classes[c] / classes[c].sum()) for c in y])
    generative = MultinomialNB(loss="nll").fit(X[:300], y[:300]).score(X[300:], y[300:])
    assert MultinomialNB().fit(X[:300], y[:300]).score(X[300:], y[300:]) > generative - 0.1
