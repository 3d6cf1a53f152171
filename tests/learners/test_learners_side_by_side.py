"""Learners whose tables lie side by side step as each does alone, bit by bit, and say what they would of their fold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sdem_dist.documents import Documents
from sdem_dist.learners import side_by_side
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import Merge
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.several import Several
from sdem_dist.learners.step_sizes import StepSizes, paper_steps
from sdem_dist.losses import Blend, CostSensitiveHinge, Hinge
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes

N, V = 120, 300
STEPS = StepSizes(start=0.3, class_start=0.05, decay=1e-5, mean_square=20.0)


def documents(n_classes):
    rng = np.random.default_rng(n_classes)
    rows = [np.sort(rng.choice(V, size, replace=False)) for size in rng.integers(0, 40, N)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    indices = np.concatenate(rows).astype(np.uint32)
    data = rng.random(len(indices), np.float32) * 3
    labels = rng.integers(0, n_classes, N).astype(np.int32)
    labels[::17] = -1
    weights, folds = rng.choice([0.0, 0.5, 1.0], N), rng.integers(0, 3, (N, 1)).astype(np.float64)
    return Documents(data, indices, indptr, V, labels, weights, folds)


SHORT = replace(STEPS, mean_square=5.0, floor=0.1)


def learners(n_classes):
    model, fixed = NaiveBayes(V, Classes(n_classes)), tuple(np.log(np.full(n_classes, 1.0 / n_classes)))
    first = SdEM(model, float(N), Merge(STEPS, tolerance=1e-3), "hinge")
    return [
        first,
        replace(first, loss="ncll", rule=Merge(replace(STEPS, start=2.0), tolerance=1e-3)),
        replace(first, loss=Blend(Hinge(), 0.1), class_weight=tuple(np.arange(1.0, n_classes + 1))),
        replace(first, loss=Hinge(margin=0.5), model=replace(model, log_prior=fixed)),
        replace(
            first,
            loss="ncll",
            model=replace(model, alpha=0.3),
            rule=Merge(replace(STEPS, mean_square=5.0, floor=0.1), tolerance=1e-3),
        ),
    ]


@pytest.mark.parametrize("n_classes", [2, 3, 8, 20])
@pytest.mark.parametrize("at_once", [1, 4, 15])
def test_the_same_bits_as_alone(n_classes, at_once, monkeypatch):
    each = learners(n_classes)
    places = [(learner, fold) for fold in (0, 1, -1) for learner in each]
    several = Several(tuple(learner for learner, _ in places), tuple(fold for _, fold in places))
    assert several.steps_side_by_side
    prepared = several.prepare(documents(n_classes))
    monkeypatch.setattr(side_by_side, "ROW_BYTES", at_once * 8 * len(prepared.words) * n_classes)
    beside = alone = several.init()
    for epoch in range(3):
        lane = Lane(epoch, 0, 0, 0, N, N)
        beside, scores = several.stepped(beside, prepared, lane)
        alone = several.update(alone, several.map(alone, prepared, lane))
        for ours, theirs in zip(beside, alone, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
        for ours, (theirs, _) in zip(scores, several.out_of_fold(alone, prepared), strict=True):
            assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-4)
    assert len({state.words.tobytes() for state in beside}) == len(places)
    assert all(
        not np.array_equal(state.words, start.words) for state, start in zip(beside, several.init(), strict=True)
    )


def test_who_steps_alone():
    first = learners(3)[0]
    others = [
        replace(first, rule=Merge(STEPS, local=False)),
        replace(first, rule=Merge(paper_steps())),
        replace(first, loss=CostSensitiveHinge(((0.0, 1.0, 2.0), (1.0, 0.0, 1.0), (1.0, 1.0, 0.0)))),
        replace(first, model=NaiveBayes(V, Classes(3, (0, 0, 1, 2)))),
    ]
    assert side_by_side.fits(first)
    assert not any(map(side_by_side.fits, others))
    assert not Several((first, replace(first, seed=1)), (0, 1)).steps_side_by_side
