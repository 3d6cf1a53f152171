"""Pictures: axes in, axes out, with titles, units and legends; class names are not formulas."""

import io

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from sdem_dist import MultinomialNB, plots
from sdem_dist.reports.page import curves
from sdem_dist.reports.top_words import Topic

mpl.use("Agg")
RNG = np.random.default_rng(0)
CLASSES = ["$a$ <b>", "_hidden", "\x1b[1m" + "long" * 30]
Y = RNG.integers(0, 3, 400)
X = RNG.poisson(0.5 + 2 * (np.arange(9) % 3 == Y[:, None]))
NAMES = np.array(CLASSES)[Y]


@pytest.fixture(scope="module")
def model():
    return MultinomialNB(n_epochs=3, evaluate_every=1).fit(X, NAMES)


def drawn(axes):
    axes.figure.savefig(io.BytesIO())
    return axes


@pytest.fixture
def axes():
    return Figure().subplots()


def test_histories_of_several_trainings(axes, model):
    curve = drawn(plots.history({"$one$": model.history_, "_two": model.history_}, "ncll", axes))
    assert curve is axes and curve.get_title() == "log-loss (NCLL), training documents"
    assert (curve.get_xlabel(), curve.get_ylabel()) == ("epoch", "nats per document")
    assert [t.get_text() for t in curve.get_legend().get_texts()] == [r"\$one\$", " _two"]
    np.testing.assert_allclose(curve.lines[0].get_ydata(), [h["ncll"] for h in model.history_])
    held_out = plots.history({"a": model.history_}, "log_loss", Figure().subplots(), prefix="fold_")
    assert held_out.get_title().endswith(", held-out folds")
    for absent in ({"metric": "r2"}, {"prefix": "nowhere_"}):
        np.testing.assert_raises_regex(ValueError, "available: accuracy", plots.history, model.history_, **absent)


def test_documents_of_a_kind_have_one_colour():
    """Those that training held out, and those that it was given, are told apart."""
    one = [
        {"epoch": e, "accuracy": 0.9, "held_out_accuracy": 0.8, "validation_accuracy": 0.7, "ncll": 0.2}
        | {"validation_ncll": 0.4, "held_out_log_loss": 0.3}
        for e in (1, 2)
    ]
    pairs = set()
    for metric in ("accuracy", "ncll", "log_loss"):
        curve = drawn(plots.history(one, metric, Figure().subplots()))
        pairs |= {(line.get_label(), line.get_color()) for line in curve.lines}
    assert len(pairs) == len(dict(pairs)) == len({color for _, color in pairs}) == 3


def test_confusion_and_reliability(axes, model):
    report = model.report(X, NAMES)
    matrix = drawn(plots.confusion(report, axes))
    np.testing.assert_allclose(matrix.images[0].get_array().sum(axis=1), 1.0)
    numbers = [int(t.get_text().replace(",", "")) for t in matrix.texts]
    assert sorted(numbers) == sorted(report.confusion[report.confusion > 0].tolist())
    assert any(label.get_text().startswith(r"\x1b") for label in matrix.get_yticklabels())
    diagram = drawn(plots.reliability(report, Figure().subplots()))
    assert f"{report.ece:.3f}" in diagram.get_title() and diagram.get_xlabel() == "probability of the prediction"


def test_words_topics_and_learning_curves(axes):
    bars = drawn(plots.words({"$x$": 1.0, "y": -2.0}, axes, title="$"))
    assert [bar.get_width() for bar in bars.patches] == [1.0, -2.0]
    topic = Topic("$a$", 0, 0.25, ["w$", "v"], ["_u"])
    panels = plots.topics([topic, topic._replace(number=1)]).axes
    assert len(panels) == 2 and drawn(panels[0]).get_title("left").endswith(": 25%")
    curve = drawn(plots.learning_curve([10, 100], {"held-out": [[0.5, 0.7], [0.8, 0.9]]}, Figure().subplots()))
    np.testing.assert_allclose(curve.lines[0].get_ydata(), [0.6, 0.85])
    assert curve.get_xlabel() == "training documents"


def test_without_axes_there_is_a_new_figure():
    import matplotlib.pyplot as plt

    assert plots.words({"a": 1.0}).figure.number in plt.get_fignums()
    plt.close("all")


def test_pictures_of_a_page_have_its_ink_and_the_same_bytes():
    late = [{"epoch": 50, "nll": 3.0}, {"epoch": 64, "nll": 2.0}]
    assert curves(late) == "", "it does not tell how training went"
    page = curves([{"epoch": 10, "nll": 4.0}, *late])
    assert "NLL" in page and page == curves([{"epoch": 10, "nll": 4.0}, *late])
    assert "currentColor" in page and "#010203" not in page
    assert "<script" not in page and 'href="http' not in page
