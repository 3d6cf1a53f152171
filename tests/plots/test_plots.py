"""Pictures: axes in, axes out, with titles, units and legends; class names are not formulas."""

from __future__ import annotations

import io

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from sdem_dist import MultinomialNB, plots
from sdem_dist.inspection.top_words import Topic
from sdem_dist.reports.page import curves

mpl.use("Agg")
RNG = np.random.default_rng(0)
CLASSES = ["$a$ <b>", "_hidden", "\x1b[1m" + "long" * 30]
Y = RNG.integers(0, 3, 400)
X = RNG.poisson(0.5 + 2 * (np.arange(9) % 3 == Y[:, None]))
MODEL = MultinomialNB(n_epochs=3, evaluate_every=1).fit(X, np.array(CLASSES)[Y])


def drawn(axes):
    axes.figure.savefig(io.BytesIO())
    return axes


@pytest.fixture
def axes():
    return Figure().subplots()


def test_history(axes):
    found = drawn(plots.history({"$one$": MODEL.history_, "_two": MODEL.history_}, "ncll", axes))
    assert found is axes
    assert found.get_title() == "log-loss (NCLL), training documents"
    assert (found.get_xlabel(), found.get_ylabel()) == ("epoch", "nats per document")
    assert [t.get_text() for t in found.get_legend().get_texts()] == [r"\$one\$", " _two"]
    np.testing.assert_allclose(found.lines[0].get_ydata(), [h["ncll"] for h in MODEL.history_])
    with pytest.raises(ValueError, match="they have accuracy"):
        plots.history(MODEL.history_, "r2")


def test_a_history_is_of_the_documents_that_were_scored(axes):
    held_out = MultinomialNB().fit(X, np.array(CLASSES)[Y])
    assert drawn(plots.history(held_out.history_, axes=axes)).get_title() == "accuracy, held-out documents"
    with pytest.raises(ValueError, match="they have .*held_out_accuracy"):
        plots.history(held_out.history_, prefix="")


def test_held_out_histories():
    figure = plots.histories({"a": MODEL.history_}, prefix="held_out_", metrics=("accuracy", "log_loss", "hinge"))
    assert [axes.get_title() for axes in figure.axes if axes.axison] == [
        "accuracy, held-out documents",
        "log-loss at the best temperature, held-out documents",
    ]


def test_confusion_and_reliability(axes):
    report = MODEL.report(X, np.array(CLASSES)[Y])
    found = drawn(plots.confusion(report, axes))
    np.testing.assert_allclose(found.images[0].get_array().sum(axis=1), 1.0)
    numbers = [int(t.get_text().replace(",", "")) for t in found.texts]
    assert sorted(numbers) == sorted(report.confusion[report.confusion > 0].tolist())
    labels = [t.get_text() for t in found.get_yticklabels()]
    assert labels[0].startswith(r"\x1b") or any(r"\x1b" in label for label in labels)
    found = drawn(plots.reliability(report, Figure().subplots()))
    assert f"{report.ece:.3f}" in found.get_title()
    assert found.get_xlabel() == "probability of the prediction"


def test_words_topics_and_learning_curves(axes):
    found = drawn(plots.words({"$x$": 1.0, "y": -2.0}, axes, title="$"))
    assert [bar.get_width() for bar in found.patches] == [1.0, -2.0]
    topic = Topic("$a$", 0, 0.25, ["w$", "v"], ["_u"])
    assert drawn(plots.topic(topic, Figure().subplots())).get_title("left").endswith(": 25%")
    assert len(plots.topics([topic, topic._replace(number=1)]).axes) >= 2
    curve = drawn(plots.learning_curve([10, 100], {"held-out": [[0.5, 0.7], [0.8, 0.9]]}, Figure().subplots()))
    np.testing.assert_allclose(curve.lines[0].get_ydata(), [0.6, 0.85])
    assert curve.get_xlabel() == "training documents"


def test_without_axes_there_is_a_new_figure():
    import matplotlib.pyplot as plt

    axes = plots.words({"a": 1.0})
    assert axes.figure.number in plt.get_fignums()
    plt.close("all")


def test_documents_of_a_kind_have_one_colour():
    """Those that training held out, and those that it was given, are told apart."""
    one = [
        {"epoch": e, "accuracy": 0.9, "held_out_accuracy": 0.8, "validation_accuracy": 0.7, "ncll": 0.2}
        | {"validation_ncll": 0.4, "held_out_log_loss": 0.3}
        for e in (1, 2)
    ]
    pairs = set()
    for metric in ("accuracy", "ncll", "log_loss"):
        found = drawn(plots.by_documents(one, metric, Figure().subplots()))
        pairs |= {(line.get_label(), line.get_color()) for line in found.lines}
    assert len(pairs) == len(dict(pairs)) == len({color for _, color in pairs}) == 3


def test_a_curve_that_begins_late_is_left_out():
    late = [{"epoch": 50, "nll": 3.0}, {"epoch": 64, "nll": 2.0}]
    assert curves(late) == ""
    assert "NLL" in curves([{"epoch": 10, "nll": 4.0}, *late])


def test_pictures_of_a_page_have_its_ink_and_the_same_bytes():
    one = [{"epoch": e, "nll": 4.0 - e} for e in (1, 2)]
    page = curves(one)
    assert page == curves(one) and "currentColor" in page and "#010203" not in page
    assert "<script" not in page and 'href="http' not in page
