"""Every learner obeys what the engine and model files rely on."""

from dataclasses import replace

import numpy as np
import pytest
from reference.random_documents import documents_of, one_round

from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.families import Gaussian, GaussianFull, Poisson
from sdem_dist.learners.protocol import restored_state
from sdem_dist.learners.rules import ClosedForm, Merge, MirrorSteps, Multiplicative, StepSizes
from sdem_dist.learners.safe_step import PaperStep, SafeStep
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.surveys import Columns, Survey, Words
from sdem_dist.losses import Blend, CostSensitiveHinge, Hinge, Ncll
from sdem_dist.models import topic_heads as th
from sdem_dist.models.em import Centres, EmForm
from sdem_dist.models.feature_classes import FeatureClasses, started
from sdem_dist.models.features import Block, FeatureModel
from sdem_dist.models.heads import Classes, Labels
from sdem_dist.models.lda import Inference, LdaClasses
from sdem_dist.models.mixture import MixtureWeights, PosteriorClasses, PosteriorMixture
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.regression import JointGaussian
from sdem_dist.models.topics import MirrorDescent, TopicModel
from sdem_dist.models.word_counts import state_at
from sdem_dist.testing import check_learner

N, WIDTH, K = 30, 14, 3
OWNERS = (0, 0, 1, 1, 2)
RNG = np.random.default_rng(0)
LABELS, WEIGHTS = (np.arange(N) % K).astype(np.int32), RNG.choice([0.5, 1.0, 2.0], N)
TARGETS = RNG.normal(size=(N, 2))


def counted(**settings) -> Documents:
    X = RNG.poisson(1.0, (N, WIDTH)).astype(np.uint8)
    return replace(documents_of(X, LABELS, weights=WEIGHTS, targets=TARGETS), **settings)


def dense(positive=False, **settings) -> DenseDocuments:
    table = RNG.normal(size=(N, 4)) + LABELS[:, None]
    return replace(DenseDocuments(np.abs(table) if positive else table, LABELS, WEIGHTS), **settings)


NAIVE, MIXED = NaiveBayes(WIDTH, Classes(K), 0.5), NaiveBayes(WIDTH, Classes(K, OWNERS), 0.5)
CLUSTERS = NaiveBayes(WIDTH, Classes(1, (0, 0, 0)), 0.5)
LDA = LdaClasses(WIDTH, Classes(K), alpha=0.5)
MEAN = StepSizes(0.05, 0.02, 1e-5, floor=1e-4, class_floor=1e-4, mean_square=9.0)
PAPER = StepSizes(decay=0.01, correction=True, floor=0.0, class_floor=0.0)
FIXED = replace(NAIVE, log_prior=tuple(np.log([0.2, 0.3, 0.5]).tolist()))
TOTAL = float(WEIGHTS.sum())
SUM, WEIGHED = Merge(local=False), (1.0, 2.0, 0.5)
COUNTS = {
    "naive Bayes, mean": SdEM(NAIVE, TOTAL, Merge(MEAN), "ncll"),
    "naive Bayes, hinge": SdEM(FIXED, TOTAL, Merge(MEAN), "hinge", WEIGHED),
    "naive Bayes, exact": SdEM(NAIVE, TOTAL, Merge(PAPER), "ncll"),
    "components, mean": SdEM(MIXED, TOTAL, Merge(MEAN), "hinge"),
    "LDA, mean": SdEM(LDA, TOTAL, Merge(MEAN), "ncll"),
    "LDA by EM, mean": SdEM(replace(LDA, inference=Inference("map")), TOTAL, Merge(), "hinge"),
    "labels": SdEM(NaiveBayes(WIDTH, Labels(K, exclusive=True), 0.5), TOTAL, Merge(MEAN), "hinge"),
}
SUMS_OF_COUNTS = {
    "naive Bayes, sum": SdEM(NAIVE, TOTAL, SUM, "ncll"),
    "naive Bayes, NLL": SdEM(NAIVE, TOTAL, SUM),
    "components, sum": SdEM(MIXED, TOTAL, SUM, "ncll"),
    "LDA, sum": SdEM(LDA, TOTAL, SUM, "ncll"),
    "LDA, NLL, occurrences": SdEM(replace(LDA, inference=Inference(occurrences="each")), TOTAL, SUM),
    "counting": SdEM(replace(NAIVE, class_alpha=0.0), TOTAL, ClosedForm(complete=True), class_weight=WEIGHED),
    "EM": SdEM(MIXED, TOTAL, ClosedForm()),
    "clusters, online": SdEM(CLUSTERS, TOTAL, ClosedForm(EmForm("online"))),
}


@pytest.mark.parametrize("name", [*COUNTS, *SUMS_OF_COUNTS])
def test_means_and_sums_of_lanes_of_counts(name):
    learner = (COUNTS | SUMS_OF_COUNTS)[name]
    merged = isinstance(learner.rule, Merge)  # side by side: what they have in common is averaged
    check_learner(learner, counted(), additive=name in SUMS_OF_COUNTS, apart=not merged)


LLOYD = SdEM(Centres(K, WIDTH), TOTAL, ClosedForm(EmForm("hard")))


@pytest.mark.parametrize("name", [*(name for name in SUMS_OF_COUNTS if "LDA" not in name), "k-means"])  # LDA draws
def test_a_document_of_weight_two_is_two_documents(name):
    learner = SUMS_OF_COUNTS.get(name, LLOYD)
    documents, times = counted(), RNG.integers(0, 4, N)
    weighted = replace(documents, weights=times.astype(np.float64))
    copies = replace(documents_of(documents.to_csr()[np.repeat(np.arange(N), times)]), labels=np.repeat(LABELS, times))
    state = LLOYD.model.start(documents.to_csr().toarray()[:K]) if learner is LLOYD else learner.init()
    for one, other in zip(*(one_round(learner, state, d) for d in (weighted, copies)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_hidden_classes():
    hidden = np.where(np.arange(N) % 4 == 1, -1, LABELS).astype(np.int32)
    learner = SdEM(replace(NAIVE, class_alpha=0.0), TOTAL, ClosedForm(), unlabelled_weight=0.5)
    documents = counted(labels=hidden)
    check_learner(learner, documents, additive=True)
    words = RNG.gamma(2.0, 1.0, (WIDTH, K))
    check_learner(learner, documents, state=state_at(words, np.ones(K))._replace(t=30.0), additive=True)


MODEL = FeatureModel((Block(Gaussian(alpha=1.0), (0, 1, 2), (0.0, 1.0, 2.0), (1.0, 2.0, 3.0)), Block(Gaussian(), (3,))))
CLASSES, COMPONENTS = FeatureClasses(MODEL, Classes(K)), FeatureClasses(MODEL, Classes(K, OWNERS))
COSTS = CostSensitiveHinge(((0.0, 1.0, 2.0), (0.5, 0.0, 1.0), (1.0, 3.0, 0.0)))
MEANS_OF_FEATURES = {
    "paper's steps": SdEM(CLASSES, TOTAL, PaperStep(), "ncll"),
    "lanes": SdEM(CLASSES, TOTAL, SafeStep(True, 4), "ncll"),
    "lanes, hinge": SdEM(CLASSES, TOTAL, SafeStep(True), Hinge()),
}
SUMS_OF_FEATURES = {
    "naive Bayes": SdEM(CLASSES, TOTAL, SafeStep(), "ncll"),
    "naive Bayes, fixed prior": SdEM(replace(CLASSES, log_prior=FIXED.log_prior), TOTAL, SafeStep(judged=False), COSTS),
    "components": SdEM(COMPONENTS, TOTAL, SafeStep(), Blend(Hinge(), 0.3), WEIGHED),
    "generative": SdEM(CLASSES, TOTAL, ClosedForm(complete=True)),
    "EM": SdEM(COMPONENTS, TOTAL, ClosedForm(monitored=True)),
    "hard EM": SdEM(COMPONENTS, TOTAL, ClosedForm(EmForm("hard", step=0.5))),
}


def start_of(learner):
    n = learner.model.n_components
    statistics = MODEL.features(np.random.default_rng(1).normal(size=(n, 10, 4)).reshape(-1, 4)).statistics
    return started(np.full(n, TOTAL / n), statistics.reshape(n, 10, -1).mean(axis=1))


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("name", [*MEANS_OF_FEATURES, *SUMS_OF_FEATURES])
def test_means_and_sums_of_lanes_of_features(name, gaps):
    documents = dense()
    if gaps:
        documents.values[::5, 1] = np.nan
        documents = replace(documents, labels=np.where(np.arange(N) % 7 == 3, -1, LABELS).astype(np.int32))
    learner = (MEANS_OF_FEATURES | SUMS_OF_FEATURES)[name]
    check_learner(learner, documents, state=start_of(learner), additive=name in SUMS_OF_FEATURES)


@pytest.mark.parametrize("rule", [ClosedForm(), SafeStep()])
def test_regression(rule):
    learner = SdEM(JointGaussian(FeatureModel((Block(GaussianFull(4, 1.0), (0, 1, 2, 3)),))), TOTAL, rule, Ncll())
    documents = dense()
    documents.values[::5, 1] = np.nan
    check_learner(learner, documents, additive=True)


@pytest.mark.parametrize("schedule", ["joint", "alternate"])
@pytest.mark.parametrize("sparse", [False, True])
def test_multiplicative_updates(schedule, sparse):
    documents = counted() if sparse else dense(positive=True)
    width = WIDTH if sparse else 4
    model = PosteriorMixture(PosteriorClasses(K), 5, width, OWNERS)
    learner = SdEM(model, TOTAL, Multiplicative(60.0, schedule), "ncll", WEIGHED)
    weights = MixtureWeights(learner.init().log_weights, RNG.random((5, width)))
    check_learner(learner, documents, state=model.start(weights), additive=True)


SCALES = {"location": (0.0, 1.0), "scale": (1.0, 2.0)}
HEADS = [th.SoftmaxClasses(K), th.Levels(K), th.SigmoidLabels(2), th.NoOutput()]
HEADS += [th.Numbers(2, **SCALES), th.Rates(2, **SCALES)]
HEADS += [th.TopicShares(trained, 4) for trained in (th.NoOutput(), th.SigmoidLabels(2))]


@pytest.mark.parametrize("head", HEADS, ids=str)
@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("beta", [1.0, 1.01])
def test_topics(head, local, beta):
    trained = getattr(head, "of", head)
    targets = {th.Rates: np.abs(TARGETS), th.SigmoidLabels: (TARGETS > 0).astype(float)}.get(type(trained), TARGETS)
    for average_from in (0, 1):
        model = TopicModel(WIDTH, 4, trained, MirrorDescent("learned", n_layers=3), beta)
        learner = SdEM(model, TOTAL, MirrorSteps(average_from=average_from, local=local, batch_size=4))
        if head is trained:
            check_learner(learner, counted(targets=targets), additive=not local)
        else:
            reporting = replace(learner, model=replace(model, head=head))
            found = reporting.metrics(reporting.evaluate(learner.init(), [learner.prepare(counted(targets=targets))]))
            assert len(found) == (4 if isinstance(trained, th.NoOutput) else 6) and min(found.values()) >= 0.0


def test_passes_that_train_nothing():
    check_learner(Words(WIDTH, 2, log_counts=True), counted(), additive=True)
    check_learner(Columns(4, weighted=True), dense(), additive=True, weighted=False)  # extremes are of all documents
    check_learner(Survey(4, K, 2), dense(positive=True), weighted=False)


def _greedy(self, state, statistics):
    statistics.rows[:] += 1.0
    return SdEM.update(self, state, statistics)


BROKEN = {
    "combine is not associative": {"combine": lambda self, parts: Columns.combine(self, parts[:2])},
    "ignores lanes": {"combine": lambda self, parts: parts[0]},
    "metrics returns different bits": {"metrics": lambda self, sums: {"mood": float(np.random.default_rng().random())}},
    "parameters returns different bits": {"parameters": lambda self, state: np.random.default_rng().random(3)},
    "update": {"update": _greedy},
}


@pytest.mark.parametrize("law", BROKEN)
def test_what_breaks_a_law_is_found(law):
    is_pass = law not in ("parameters returns different bits", "update")
    broken = type("Broken", (Columns if is_pass else SdEM,), BROKEN[law])
    learner = broken(4) if is_pass else broken(NAIVE, TOTAL, ClosedForm(complete=True))
    with pytest.raises(AssertionError, match=law):
        check_learner(learner, dense() if is_pass else counted(), weighted=not is_pass)


GOOD = COUNTS["naive Bayes, mean"]


@pytest.mark.parametrize(("name", "value"), [
    ("words", np.ones((WIDTH, K + 1))),
    ("words", np.ones((WIDTH, K), np.float32)),
    ("totals", np.array([1.0, np.nan, 1.0])),
    ("class_counts", np.array([1.0, -1.0, 1.0])),
    ("gamma", np.array([0.0])),
])  # fmt: skip
def test_arrays_that_no_state_has_are_named(name, value):
    arrays = {key: np.asarray(array) for key, array in GOOD.init()._asdict().items()}
    restored_state(GOOD, arrays)
    np.testing.assert_raises_regex(ValueError, f"array '{name}'", restored_state, GOOD, arrays | {name: value})
    del arrays[name]
    np.testing.assert_raises_regex(ValueError, f"array '{name}' is missing", restored_state, GOOD, arrays)


FEATURES, SECOND_MOMENT = SUMS_OF_FEATURES["generative"], np.arange(8) == 1
TOPICS = SdEM(TopicModel(WIDTH, 4, th.SoftmaxClasses(K)), TOTAL, MirrorSteps())


def checked(learner, state=None, **changed):
    learner.check_state((learner.init() if state is None else state)._replace(**changed))


@pytest.mark.parametrize(("make", "match"), [
    (lambda: checked(replace(GOOD, class_weight=(1.0,))), "class_weight has 1 numbers for 3 classes"),
    (lambda: checked(replace(GOOD, seed=-1)), "seed"),
    (lambda: checked(replace(GOOD, loss="other")), "unknown"),
    (lambda: checked(FEATURES, start_of(FEATURES), mu=start_of(FEATURES).mu - 9.0 * SECOND_MOMENT), "inside S"),
    (lambda: checked(TOPICS, topics=np.ones((WIDTH, 4))), "add up to 1"),
    (lambda: replace(NAIVE, log_prior=(0.0, 0.0)), "log_prior has 2 numbers for 3 classes"),
    (lambda: replace(LDA, log_prior=(0.0, 0.0)), "log_prior has 2 numbers for 3 classes"),
    (lambda: Classes(K, (0, 2, 1)), "sorted"),
    (lambda: Classes(10**12, (0, 1, 2)), "per class"),
    (lambda: Classes(K, (0, 0, 1)), "per class"),
    (lambda: JointGaussian(FeatureModel((Block(Poisson(), (0,)),))), "GaussianFull"),
    (lambda: Block(Poisson(), (0, 1), (0.0,), (1.0,)), "location or scale"),
])  # fmt: skip
def test_what_does_not_fit_together_and_points_outside_are_refused(make, match):
    np.testing.assert_raises_regex(ValueError, match, make)
