"""An epoch of naive Bayes models whose tables lie side by side: each steps as it would alone, and scores its fold."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from sdem_dist.kernels import side_by_side as kernel
from sdem_dist.kernels.csr import row_sums
from sdem_dist.kernels.documents import Visited, runs
from sdem_dist.kernels.vectors import WIDER
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import Merge
from sdem_dist.learners.sdem import SdEM, visiting_order
from sdem_dist.losses import kernel_form
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.word_counts import LocalDocuments, SdemState, log_class_prior

ROW_BYTES = 32 << 20
"""Most bytes of tables that lie side by side: more would not fit in a processor's cache."""
Stepped = tuple[SdemState, np.ndarray]
"""A state after an epoch, and ln p(y, d) of the documents of its fold."""


def fits(learner: object) -> bool:
    """Whether a learner can step beside others: naive Bayes without components, and steps that are not the paper's."""
    if not isinstance(learner, SdEM) or not isinstance(learner.model, NaiveBayes):
        return False
    head, rule = learner.head, learner.rule
    plain = isinstance(head, Classes) and not head.component_class and not learner.held_out
    steps = isinstance(rule, Merge) and rule.local and not rule.steps.literal
    return plain and steps and not kernel_form(learner.loss, head.n_classes).costs.size


def _rule(learner: SdEM[NaiveBayes]) -> Merge:
    assert isinstance(learner.rule, Merge)
    return learner.rule


def stepped(
    learners: Sequence[SdEM[NaiveBayes]],
    folds: Sequence[int],
    states: Sequence[SdemState],
    documents: LocalDocuments,
    lane: Lane,
    renewed: bool = False,
) -> list[Stepped]:
    """Return what learners of one seed have after a lane that is a whole round, with the bits that each has alone.

    `renewed`: the tables of `states` are those of the result; nobody else needs them.
    """
    n, n_words = learners[0].model.n_classes, len(documents.words)
    one = (8 if n == 2 else 4) * n_words * n
    size, found = min(len(learners), max(1, ROW_BYTES // max(one, 1))), list[Stepped]()
    room = kernel.room_of(n_words, _columns(n * size), n != 2)
    for i in range(0, len(learners), size):
        own = slice(i, i + size)
        found += _together(learners[own], folds[own], states[own], documents, lane, room, renewed)
    return found


def _columns(n_used: int) -> int:
    return -(-n_used // WIDER) * WIDER


def _together(
    learners: Sequence[SdEM[NaiveBayes]],
    folds: Sequence[int],
    states: Sequence[SdemState],
    local: LocalDocuments,
    lane: Lane,
    room: np.ndarray,
    renewed: bool,
) -> list[Stepped]:
    n, n_documents = learners[0].model.n_classes, local.documents.n_documents
    weights, numbers = np.empty((n_documents, len(learners))), local.targets[:, 0]
    for m, (learner, fold) in enumerate(zip(learners, folds, strict=True)):
        kept = (numbers != fold) & (local.labels >= 0)
        weights[:, m] = np.where(kept, learner.trained_on(local, lane).weights, 0.0)
    tables, t = _tables(learners, states, local.words, room), np.array([state.t for state in states])
    ways, due = _ways(learners, lane.round_documents / max(n_documents, 1)), np.full(len(learners), 0.5)
    order = visiting_order(learners[0].seed, lane, n_documents)
    entries = np.diff(local.documents.indptr)[order] * float(tables.totals.size)
    for a, b in runs(2.0 * entries):
        kernel.run_side_by_side(local.visited(order[a:b]), weights, tables, n, ways, t, due)
    places = np.full(learners[0].model.n_features, -1)
    places[local.words] = np.arange(len(local.words))
    after = [
        _state(learner, state, tables, m, places, float(weights[:, m].sum()), renewed)
        for m, (learner, state) in enumerate(zip(learners, states, strict=True))
    ]
    return list(zip(after, _scores(learners, folds, after, tables, local), strict=True))


def _tables(
    learners: Sequence[SdEM[NaiveBayes]], states: Sequence[SdemState], words: np.ndarray, room: np.ndarray
) -> kernel.Tables:
    n, n_models = learners[0].model.n_classes, len(learners)
    n_columns = _columns(n * n_models)
    (totals, class_counts), log_prior = np.ones((2, n_columns)), np.zeros(n_columns)
    rows = kernel.rows_in(room, len(words), n_columns, n * n_models, n != 2)
    fixed = [learner.model.log_prior for learner in learners]
    for m, (state, prior) in enumerate(zip(states, fixed, strict=True)):
        own = slice(m * n, (m + 1) * n)
        kernel.put_table(state.words, words, m * n, n_columns, rows)
        totals[own], class_counts[own] = state.totals, state.class_counts
        if prior is not None:
            log_prior[own] = prior
    return kernel.Tables(rows, totals, class_counts, log_prior, np.array([prior is None for prior in fixed]))


def _ways(learners: Sequence[SdEM[NaiveBayes]], ahead: float) -> kernel.Ways:
    def of(learner: SdEM[NaiveBayes]) -> kernel.Ways:
        model, form = learner.model, kernel_form(learner.loss, learner.n_labels)
        steps = _rule(learner).steps.of_lane(model.alpha, model.class_alpha, learner.n_documents, ahead)._asdict()
        more = {"kind": form.kind, "margin": form.margin, "share": form.share, "tolerance": _rule(learner).tolerance}
        return kernel.Ways(*({**steps, **more}[name] for name in kernel.Ways._fields))

    return kernel.Ways(*map(np.array, zip(*map(of, learners), strict=True)))


def _state(
    learner: SdEM[NaiveBayes],
    before: SdemState,
    tables: kernel.Tables,
    m: int,
    places: np.ndarray,
    weight: float,
    renewed: bool,
) -> SdemState:
    """Return the state of one model: what `Sdem.update` makes of one lane."""
    if weight == 0.0:
        return before
    own = slice(m * learner.model.n_classes, (m + 1) * learner.model.n_classes)
    table = before.words if renewed else before.words.copy()
    classes = tables.class_counts[own] - before.class_counts
    totals = kernel.take_table(tables.rows, own.start, places, _rule(learner).steps.floor, table)
    return before._replace(
        words=table,
        totals=totals,
        class_counts=np.maximum(before.class_counts + classes, _rule(learner).steps.class_floor),
        t=before.t + weight,
    )


def _scores(
    learners: Sequence[SdEM[NaiveBayes]],
    folds: Sequence[int],
    states: Sequence[SdemState],
    tables: kernel.Tables,
    local: LocalDocuments,
) -> list[np.ndarray]:
    """Return ln p(y, d) of the documents of each model's fold: sums of single precision, as in training."""
    n, found, d = learners[0].model.n_classes, list[np.ndarray](), local.documents
    lengths = row_sums(d.data, d.indptr)
    for fold, same in groupby(range(len(folds)), folds.__getitem__):
        of_fold, models = np.flatnonzero(local.targets[:, 0] == fold), list(same)
        sums = np.empty((len(of_fold), n * len(models)))
        visited = Visited(d.data, d.indices, d.indptr, local.labels, local.weights, of_fold)
        kernel.score_columns(visited, tables.rows, tables.totals.size, n * models[0], sums)
        for i, m in enumerate(models):
            state, model = states[m], learners[m].model
            log_totals = np.log(state.totals + state.gamma * model.n_features)
            joint = sums[:, i * n : (i + 1) * n] + log_class_prior(state, model.log_prior)
            found.append(joint - lengths[of_fold, None] * log_totals)
    return found
