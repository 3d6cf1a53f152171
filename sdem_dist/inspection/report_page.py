"""One page about a model and how it does on documents."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sdem_dist.counted import counted
from sdem_dist.inspection.evaluation_set import EvaluationSet, taught
from sdem_dist.inspection.model_card import model_facts
from sdem_dist.inspection.reporting import of_topics, report_of
from sdem_dist.inspection.top_words import word_weights
from sdem_dist.reports import page
from sdem_dist.reports.classification import ClassificationReport
from sdem_dist.reports.clusters import TopicReport
from sdem_dist.reports.explanation import Explanation
from sdem_dist.reports.labels import LabelReport
from sdem_dist.reports.report import cell

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator

WORDS = 15
CONFUSIONS = 10  # kinds of errors that examples are shown of
EXAMPLES = 2  # of each kind


def report_page(estimator: EngineEstimator, examined: EvaluationSet, name: str, documents: str) -> str:
    """Return the body of a page: what the model is, how its training went, what it gets right and wrong, and why.

    `examined`: the documents that it is measured on.
    `name`, `documents`: what the model and the documents are called.
    """
    report = report_of(estimator, examined.documents, examined.labels)
    head = f'<header><h1>{cell(name)}</h1><p class="soft">{cell(type(estimator).__name__)}, measured on '
    remark = ", which it was trained on: new documents will do worse" if taught(estimator, examined.documents) else ""
    head += f"{cell(counted(report.n_documents, 'document'))} of {cell(documents)}{remark}</p></header>"
    parts = [("model", "The model", page.facts(model_facts(estimator)))]
    parts.append(("training", "Training", page.curves(estimator.history_)))
    if isinstance(report, ClassificationReport):
        head += page.cards(report.figures)
        examples = examples_of_errors(estimator, report, examined)
        parts += [
            ("classes", "By class", page.by_class(report)),
            ("confusion", "Confusion", page.confusion(report)),
            ("trust", "How far to trust probabilities", page.trust(report)),
            ("words", "Words by class", _words_by_class(estimator)),
            ("errors", "Examples of errors", page.examples(examples)),
        ]
    elif isinstance(report, LabelReport):
        parts.append(("labels", "By label", report._repr_html_()))
        parts.append(("words", "Words by label", page.words_by_class(word_weights(estimator, WORDS))))
        examples = examples_of_wrong_labels(estimator, report, examined)
        parts.append(("errors", "Examples of errors", page.examples(examples, ("for the label", "against it"))))
    elif not isinstance(report, TopicReport):
        parts.append(("figures", "On these documents", report._repr_html_()))
    if estimator.spec.topics is not None:
        of = report if isinstance(report, TopicReport) else of_topics(estimator, examined.documents, examined.labels)
        parts.append(("topics", "Topics", page.topics(of, _texts_of_topics(of, examined))))
    links = "".join(f'<a href="#{anchor}">{cell(title)}</a>' for anchor, title, body in parts if body)
    return f"{head}<nav>{links}</nav>{''.join(page.section(*part) for part in parts)}"


def _words_by_class(estimator: EngineEstimator) -> str:
    words = page.words_by_class(word_weights(estimator, WORDS))
    if words or estimator._layout == "dense" or estimator.spec.topics is not None:
        return words
    name = cell(type(estimator).__name__)
    return f'<p class="soft">Not listed for {name}. explain and sdem explain show the words of a document.</p>'


def examples_of_errors(
    estimator: Any, report: ClassificationReport, examined: EvaluationSet
) -> list[tuple[str, Explanation]]:
    """Return the surest errors of each of the most frequent confusions, explained; none for a model without words."""
    classes = report.classes.tolist()
    rows: list[int] = []
    for confusion in report.confusions(CONFUSIONS):
        i, j = classes.index(confusion.label), classes.index(confusion.prediction)
        of_kind = [r for r in report.errors.tolist() if report.labels[r] == i and report.predictions[r] == j]
        rows += of_kind[:EXAMPLES]
    if not rows:
        return []
    positions = report.positions[rows]
    labels = [classes[report.labels[r]] for r in rows]
    explanations = examined.explained(estimator, positions, labels) or []
    titles = (
        f"{label} taken for {e.label}, probability {e.probability:.3f} (document {id_})"
        for label, e, id_ in zip(labels, explanations, examined.ids_of(positions), strict=False)
    )
    return list(zip(titles, explanations, strict=True))


def examples_of_wrong_labels(
    estimator: Any, report: LabelReport, examined: EvaluationSet
) -> list[tuple[str, Explanation]]:
    """Return the worst errors of the labels most often wrongly given or missing; none for a model without words."""
    rows = report.errors
    wrong = report.wrong_labels(rows)
    kinds = list(zip(wrong.tolist(), report.given[rows, wrong].tolist(), strict=True))
    chosen: list[int] = []
    for kind, _ in Counter(kinds).most_common(CONFUSIONS):
        chosen += [i for i, own in enumerate(kinds) if own == kind][:EXAMPLES]
    if not chosen:
        return []
    positions = report.positions[rows[chosen]]
    explanations = examined.of_labels(estimator, positions, wrong[chosen]) or []
    titles = (
        f"{e.label} is {'wrongly given' if kinds[i][1] else 'missing'}, probability {e.probability:.3f} (document {id_})"
        for i, e, id_ in zip(chosen, explanations, examined.ids_of(positions), strict=False)
    )
    return list(zip(titles, explanations, strict=True))


def _texts_of_topics(report: TopicReport, examined: EvaluationSet) -> list[list[str]]:
    """Return the documents that have most of each topic."""
    if not examined.has_texts:
        return []
    return [examined.texts_of(report.examples(k)) for k in range(len(report.topics))]
