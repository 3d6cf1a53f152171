"""Mirror descent, back-propagation through it, and steps of topics, against finite differences and plain transcriptions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.random_documents import csr, problem

from sdem_dist.kernels import mirror_descent as md
from sdem_dist.kernels import topic_steps as ts
from sdem_dist.kernels.csr import Counted, Visited

UNEVEN = (1.001, 1.4, 0.6, 2.5)
"""Alpha of four topics."""


def inferred(topics, counts, alpha, step, method, n_layers):
    """Return theta_0 to theta_L and the steps of one document, by the kernel."""
    words = np.flatnonzero(counts)
    rows = np.ascontiguousarray(topics[words])
    thetas, steps = np.empty((n_layers + 1, topics.shape[1])), np.empty(n_layers)
    masses = np.empty((n_layers + 1, len(words)))
    counts = counts[words].astype(np.float32)
    document = md.Words(rows, np.ascontiguousarray(rows.T), counts, np.arange(256, dtype=np.uint32))
    points = np.empty_like(thetas) if method == md.ACCELERATED else thetas
    md.infer(document, each_alpha(alpha, topics.shape[1]), step, method, md.Layers(thetas, points, steps, masses))
    np.testing.assert_allclose(masses, thetas @ rows.T, rtol=1e-12)
    return thetas, steps


def each_alpha(alpha, n_topics):
    return np.array(np.broadcast_to(alpha, (n_topics,)), np.float64)


def length(step, counts, alpha, n_topics=4):
    return step / (counts.sum() + np.maximum(each_alpha(alpha, n_topics) - 1, 0).sum())


def forward(topics, counts, alpha, steps, method=md.MIRROR_DESCENT):
    """Equation 12 with given steps, and the floor; or Tseng's Algorithm 1, whose steps are those from the last point."""
    theta = found = point = np.full(topics.shape[1], 1 / topics.shape[1])
    for layer, step in enumerate(steps):
        share = 2 / (layer + 2) if method == md.ACCELERATED else 1.0
        theta = (1 - share) * found + share * point
        pull = topics.T @ (counts / (topics @ theta)) + (np.asarray(alpha) - 1) / theta
        p = point * np.exp(step * (pull - pull.max()))
        point = np.maximum(p / p.sum(), md.FLOOR)
        found = (1 - share) * found + share * point
    return found


def ordered_loss(score, cuts, label):
    """Minus ln p(level), from the score and a first threshold with the logarithms of the gaps after it."""
    at = np.concatenate([[-np.inf], cuts[0] + np.concatenate([[0.0], np.cumsum(np.exp(cuts[1:]))]), [np.inf]])
    below = 1 / (1 + np.exp(score - at))
    return -np.log(below[label + 1] - below[label])


def loss(kind, topics, output, counts, label, target, alpha, gamma, steps, method=md.MIRROR_DESCENT):
    theta = forward(topics, counts, alpha, steps, method)
    scores = gamma * output @ theta
    if kind == ts.SOFTMAX:
        return np.log(np.exp(scores).sum()) - scores[label]
    if kind == ts.ORDERED:  # a cut is the sum of its row, which by itself says nothing of theta
        return ordered_loss(scores[0], output[1:].sum(axis=1) / 4, label)
    if kind == ts.POISSON:
        return gamma * (np.exp(output @ theta) - target * (output @ theta)).sum()
    if kind == ts.LABELS:
        return (np.logaddexp(0, scores) - target * scores).sum()
    return 0.5 * gamma * ((target - output @ theta) ** 2).sum()


def gradients(kind, given, alpha=1.001, gamma=1.0, n_layers=10, step=1.0, method=md.MIRROR_DESCENT):
    """Return gradients by topics and by outputs of what `problem` returns."""
    topics, output, counts, labels, targets = given
    by_topics, by_output = np.zeros_like(topics), np.zeros_like(output)
    n, totals = len(counts), np.ones(topics.shape[1])
    documents = Visited(*csr(counts), labels, np.ones(n), np.arange(n), targets)
    parameters = ts.Topics(topics, totals, output)
    how = md.Descent(each_alpha(alpha, topics.shape[1]), n_layers, step, method)
    ts.add_gradients(documents, ts.Response(kind, gamma), parameters, how, ts.Topics(by_topics, totals, by_output))
    return by_topics, by_output


def differences(function, table, width=1e-6):
    found = np.empty_like(table)
    for at in np.ndindex(table.shape):
        ends = []
        for sign in (1, -1):
            moved = table.copy()
            moved[at] += sign * width
            ends.append(function(moved))
        found[at] = (ends[0] - ends[1]) / (2 * width)
    return found


@pytest.mark.parametrize("kind", [ts.SOFTMAX, ts.GAUSSIAN, ts.POISSON, ts.ORDERED, ts.LABELS])
@pytest.mark.parametrize(("alpha", "step", "method"), [
    (1.001, 1.0, md.MIRROR_DESCENT),
    (1.001, 30.0, md.MIRROR_DESCENT),
    (1.5, 1.0, md.LINE_SEARCH),
    (0.5, 0.1, md.MIRROR_DESCENT),
    (0.7, 1.0, md.LINE_SEARCH),
    (1.0, 2.0, md.LINE_SEARCH_L1),
    (1.001, 1.0, md.ACCELERATED),
    (1.5, 5.0, md.ACCELERATED),
    (UNEVEN, 1.0, md.MIRROR_DESCENT),
    (UNEVEN, 1.0, md.ACCELERATED),
    (UNEVEN, 1.0, md.LINE_SEARCH_L1),
])  # fmt: skip
@pytest.mark.parametrize("n_layers", [1, 3, 10])
def test_gradients_are_those_of_finite_differences(kind, alpha, step, method, n_layers):
    topics, output, counts, labels, targets = problem(n_layers)
    gamma = 1.3
    if kind in (ts.POISSON, ts.LABELS):
        targets = np.floor(np.abs(targets) * 1.7) if kind == ts.POISSON else (targets > 0).astype(float)
    if kind == ts.ORDERED:
        output[1:] = np.array([[-0.4], [0.3]])
    given = topics, output, counts, labels, targets
    by_topics, by_output = gradients(kind, given, alpha, gamma, n_layers, step, method)
    frozen = [inferred(topics, x, alpha, length(step, x, alpha), method, n_layers)[1] for x in counts]

    def total(topics, output):
        parts = zip(counts, labels, targets, frozen, strict=True)
        return sum(loss(kind, topics, output, x, y, r, alpha, gamma, steps, method) for x, y, r, steps in parts)

    expected = differences(lambda u: total(topics, u), output)
    if kind == ts.ORDERED:
        expected[1:] *= 4
    np.testing.assert_allclose(by_output, expected, rtol=1e-5, atol=1e-7)
    expected = differences(lambda phi: total(phi, output), topics)
    np.testing.assert_allclose(by_topics, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("words", "labelled"), [(0.3, 1.0), (2.0, 7.0)])
def test_gradients_of_words_and_labels_are_those_of_finite_differences(words, labelled):
    """A document whose class is hidden has the words' part alone, also through theta."""
    topics, output, counts, labels, targets = problem(5)
    labels[1] = -1
    by_topics, by_output, n = np.zeros_like(topics), np.zeros_like(output), len(counts)
    documents = Visited(*csr(counts), labels, np.array([1.0, 2.0, 0.5]), np.arange(n), targets)
    how = md.Descent(each_alpha(1.001, 4), 6, 1.0, md.MIRROR_DESCENT)
    response = ts.Response(ts.SOFTMAX, 1.3, words, labelled)
    before, found = (ts.Topics(of, np.ones(4), by) for of, by in ((topics, output), (by_topics, by_output)))
    ts.add_gradients(documents, response, before, how, found)
    frozen = [inferred(topics, x, 1.001, length(1.0, x, 1.001), md.MIRROR_DESCENT, 6)[1] for x in counts]

    def of_labels(topics, output):
        parts = zip(counts, labels, targets, frozen, documents.weights, strict=True)
        return sum(w * loss(ts.SOFTMAX, topics, output, x, y, r, 1.001, 1.3, s) for x, y, r, s, w in parts if y >= 0)

    def of_words(topics):
        parts = zip(counts, frozen, documents.weights, strict=True)
        return -sum(w * (x @ np.log(topics @ forward(topics, x, 1.001, s))) for x, s, w in parts)

    np.testing.assert_allclose(by_output, differences(lambda u: of_labels(topics, u), output), rtol=1e-5, atol=1e-7)
    expected = differences(lambda phi: labelled * of_labels(phi, output) + words * of_words(phi), topics)
    np.testing.assert_allclose(by_topics, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_the_gradient_without_outputs_holds_theta_fast():
    topics, output, counts, labels, targets = problem(7)
    by_topics, _ = gradients(ts.NONE, (topics, output[:0], counts, labels, targets))
    thetas = [inferred(topics, x, 1.001, length(1.0, x, 1.001), md.MIRROR_DESCENT, 10)[0][-1] for x in counts]
    expected = differences(lambda phi: -(counts * np.log(np.array(thetas) @ phi.T)).sum(), topics)
    np.testing.assert_allclose(by_topics, expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    alpha=st.floats(0.01, 20.0),
    n_topics=st.integers(1, 8),
    scale=st.floats(1e-3, 1e4),
    step=st.floats(1e-4, 1e4),
    method=st.sampled_from((md.LINE_SEARCH, md.LINE_SEARCH_L1)),
)
def test_every_accepted_step_lowers_the_objective(seed, alpha, n_topics, scale, step, method):
    topics, _, counts, _, _ = problem(seed, n_topics)
    counts = (scale * counts).astype(np.float32).astype(float)
    thetas, steps = inferred(topics, counts[0], alpha, step / counts[0].sum(), method, 8)
    words, own = np.flatnonzero(counts[0]), each_alpha(alpha, n_topics)
    values = [md.objective(counts[0][words], topics[words] @ theta, theta, own) for theta in thetas]
    assert (np.diff(values) <= 1e-12 * np.abs(values[:-1]).max()).all()
    for before, after, taken in zip(thetas, thetas[1:], steps, strict=False):
        assert taken > 0 or np.array_equal(before, after)
    np.testing.assert_allclose(thetas.sum(axis=1), 1.0, atol=1e-9)
    assert thetas.min() >= md.FLOOR


@pytest.mark.parametrize("alpha", [1.001, 2.0, 50.0, 1e6])
@pytest.mark.parametrize("n_words", [1, 5, 200])
def test_steps_of_given_length_end_where_the_search_does(alpha, n_words):
    """They do not swing about it, however strong the prior, and however short the document."""
    topics, _, _, _, _ = problem(4, n_topics=20, n_words=30)
    counts = np.random.default_rng(0).multinomial(n_words, topics @ np.full(20, 0.05)).astype(float)
    words, values = np.flatnonzero(counts), []
    theta, own = np.empty((1, 20)), each_alpha(alpha, 20)
    layers = {md.LINE_SEARCH: 60, md.LINE_SEARCH_L1: 60, md.MIRROR_DESCENT: 300, md.ACCELERATED: 300}
    for method, n_layers in layers.items():
        how = md.Descent(own, n_layers, 1.0, method)
        md.infer_documents(Counted(*csr(counts[None])), topics, how, theta, np.empty(1))
        values.append(md.objective(counts[words], topics[words] @ theta[0], theta[0], own))
    np.testing.assert_allclose(values[1:], values[0], rtol=1e-4)


@pytest.mark.parametrize("alpha", [1.001, 1.0, 0.5])
@pytest.mark.parametrize("n_topics", [50, 100])
def test_gradients_of_sharp_topics_stay_small(alpha, n_topics):
    """Words that one topic alone explains made shares swing, and gradients grow to 1e60."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(200, 0.01), n_topics).T.copy() + 1e-9
    topics /= topics.sum(axis=0)
    counts = [rng.multinomial(30, topics[:, rng.integers(0, n_topics, 3)].mean(axis=1)) for _ in range(20)]
    counts, steps = np.array(counts, float), length(1.0, np.full(1, 30.0), alpha, n_topics)
    thetas = [inferred(topics, x, alpha, steps, md.MIRROR_DESCENT, 20)[0] for x in counts]
    with np.errstate(divide="ignore"):
        gains = np.array([np.diff(np.log(theta), axis=0).max() for theta in thetas])
    assert gains.max() < 2.5  # 1 before shares are normalized
    targets, u = rng.normal(size=(20, 1)), rng.normal(size=(1, n_topics))
    by_topics, _ = gradients(ts.GAUSSIAN, (topics, u, counts, np.zeros(20, np.int32), targets), alpha, n_layers=20)
    relative = by_topics * topics  # by ln Phi, which is what steps change
    assert np.abs(relative).max() < 1e3


def test_a_document_without_words_has_even_topics():
    topics, output, counts, labels, targets = problem(1)
    by_topics, by_output = gradients(ts.SOFTMAX, (topics, output, 0 * counts[1:2], labels, targets), n_layers=5)
    assert not by_topics.any()
    assert np.isfinite(by_output).all() and by_output.any()


def plain_run(kind, topics, output, counts, labels, targets, batches, prior, rates, n_layers, literal):
    """Algorithm 2 over dense tables; return the parameters after every batch."""
    squares, seen, found = np.zeros(topics.shape[1]), 0.0, []
    for t, batch in enumerate(batches, start=1):
        given = topics, output, counts[batch], labels[batch], targets[batch]
        by_topics, by_output = gradients(kind, given, n_layers=n_layers)
        by_topics = by_topics / len(batch) - prior / topics
        remaining = 1 if literal else 1 - (seen + len(batch) / 2) / len(counts)
        seen += len(batch)
        weights = topics**2 * (counts[batch].any(axis=0) | (prior > 0))[:, None]
        weights = np.ones_like(topics) if literal else weights
        squares += (weights * by_topics**2).sum(axis=0) / weights.sum(axis=0)
        rate = rates[0] * remaining / np.sqrt(squares / t)
        topics = topics * np.exp(-rate * by_topics if literal else np.clip(-rate * by_topics, -1, 1))
        topics = topics / topics.sum(axis=0)
        output = output - rates[1] * remaining * by_output / len(batch)
        found.append((topics, output))
    return squares, found


@pytest.mark.parametrize("kind", [ts.SOFTMAX, ts.GAUSSIAN, ts.NONE])
@pytest.mark.parametrize("prior", [0.0, 1e-5])
@pytest.mark.parametrize("literal", [False, True])
def test_a_lane_is_algorithm_2(kind, prior, literal):
    topics, output, counts, labels, targets = problem(3, n_documents=11)
    output = output[: 0 if kind == ts.NONE else 3]
    counts[:, 5:] *= np.random.default_rng(0).random((11, 4)) < 0.4
    batches = np.array_split(np.arange(11), [4, 8])
    n_local = 9 if prior else 8  # the last word is another lane's
    counts[:, n_local:] = 0
    squares, expected = plain_run(kind, topics, output, counts, labels, targets, batches, prior, (0.3, 0.7), 5, literal)
    local, own_output, own_squares = topics[:n_local].copy(), output.copy(), np.zeros(4)
    sums, output_sums = np.zeros_like(local), np.zeros_like(output)
    documents = Visited(*csr(counts), labels, np.ones(11), np.arange(11), targets)
    rates = ts.Rates(4, 0.3, 0.7, prior, 1.0, *((np.inf, 9.0) if literal else (11.0, 0.0)))
    kept, decay_sums, n, t = ts.run_batches(
        documents, ts.Response(kind, 1.0), ts.Topics(local, topics[n_local:].sum(axis=0), own_output),
        md.Descent(each_alpha(1.001, 4), 5, 1.0, md.MIRROR_DESCENT), rates,
        (own_squares, 0.0, 0.0),
        ts.Topics(sums, np.zeros(0), output_sums),
    )  # fmt: skip
    assert n == t == 3
    np.testing.assert_allclose(np.vstack([local, topics[n_local:] * kept]), expected[-1][0], rtol=1e-9)
    np.testing.assert_allclose(own_output, expected[-1][1], rtol=1e-9)
    np.testing.assert_allclose(own_squares, squares, rtol=1e-9)
    whole = np.vstack([sums, topics[n_local:] * decay_sums])
    np.testing.assert_allclose(whole, np.sum([phi for phi, _ in expected], axis=0), rtol=1e-9)
    np.testing.assert_allclose(output_sums, np.sum([u for _, u in expected], axis=0), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("n_rare", [0, 3, 3_000])
def test_rare_words_do_not_hold_common_ones_back(n_rare):
    rng = np.random.default_rng(0)
    common, rare = rng.dirichlet(np.full(20, 5.0), 4).T, np.full((n_rare, 4), 1e-6)
    signs = rng.choice([-1.0, 1.0], (20, 4))
    topics = np.vstack([common * (1 - n_rare * 1e-6), rare])
    gradient = np.vstack([signs, np.full((n_rare, 4), 1e3)])  # about one over their probabilities
    rates = ts.Rates(1, 0.01, 0.0, 0.0, 1.0, 1.0)
    ts.step_topics(topics, np.ones(4), np.arange(len(topics)), gradient, 1.0, np.zeros(4), 1.0, rates, 1.0)
    moved = np.log(topics[:20] / (common * (1 - n_rare * 1e-6)))
    np.testing.assert_allclose(moved, -0.01 * signs, rtol=0.03)
