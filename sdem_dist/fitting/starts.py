"""Where training starts: EM of mixtures, at examples or clusters; a generative model of documents without labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.engine.plan import AnyStage, MadeByWorkers, Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.fitting import defaults, plans
from sdem_dist.fitting.holdout import Candidate, Draws, HoldoutPolicy, first_loss, gain_of
from sdem_dist.inputs.spec import Source, Trained, final_stage
from sdem_dist.learners import starts
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.starts import Kind
from sdem_dist.learners.surveys import Columns, Survey, SurveyResult, examples_of
from sdem_dist.models.em import EXACT, EmForm
from sdem_dist.models.feature_classes import FeatureClasses
from sdem_dist.models.features import FeatureModel
from sdem_dist.models.heads import Classes, by_class
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.word_counts import SdemState, state_at


def check_em(estimator: Any) -> None:
    """Raise ValueError where a setting of EM belongs to another form."""
    for name, form in (("em_step", "generalised"), ("batch_size", "online")):
        if getattr(estimator, name) is not None and estimator.em != form:
            raise ValueError(f"{name} means nothing with em={estimator.em!r}: leave it at None, or set em={form!r}")
    if estimator.annealing > 1 and estimator.em == "hard":
        raise ValueError("annealing means nothing with em='hard', which has no posteriors: leave it at 1")


def em_of(estimator: Any, once: Plan) -> tuple[EmForm, Plan]:
    """Return the form of an estimator's EM, and its plan, in which a round is a pass over all documents, or a batch."""
    step = float(estimator.em_step or defaults.GENERALISED_EM_STEP) if estimator.em == "generalised" else 1.0
    plan = replace(once, n_epochs=estimator.n_epochs)
    if estimator.em == "online":
        batch = estimator.batch_size or defaults.ONLINE_EM_BATCH
        plan = replace(plan, n_rounds=max(1, -(-plan.n_documents // batch)), n_lanes=1)
    return EmForm(estimator.em, step, float(estimator.annealing)), plan


def surveyed(
    trainer: Trainer, source: Source, plan: Plan, n_examples: int, name: str = "survey", **how: Any
) -> SurveyResult:
    """Run the stage that draws examples and sums up rows, and return what it found."""
    survey = Survey(source.n_features, max(1, len(source.classes)), n_examples, seed=plan.seed, **how)
    return trainer.run(Stage(name, survey, plan, corpus=source.documents)).state


def sampled_positions(survey: SurveyResult) -> list[int]:
    """Return where in the corpus the examples of a survey without classes are, ascending."""
    return np.sort(survey.positions[np.isfinite(survey.keys)].astype(np.int64)).tolist()


def mixture(
    trainer: Trainer, source: Source, once: Plan, numbers: tuple[int, ...], kind: Kind, form: EmForm = EXACT, **how: Any
) -> SdEM[Any]:
    """Return EM's learner of a mixture, for columns of a table after a pass over these.

    `numbers`: components of each class; a mixture without labels is one class. `how`: of `SdEM`.
    """
    head: Any = Classes(len(numbers), tuple(np.repeat(np.arange(len(numbers)), numbers).tolist()))
    of_words = kind.name == "multinomial"
    model: Any = NaiveBayes(source.n_features, head, kind.alpha)
    if not of_words:
        columns = Stage("columns", Columns(source.n_features, weighted=True), once, corpus=source.documents)
        model = FeatureClasses(FeatureModel((kind.block(trainer.run(columns).state),)), head)
    return SdEM(model, source.weight, ClosedForm(form, monitored=not of_words), seed=once.seed, **how)


def start_at_examples(
    trainer: Trainer, em: SdEM[Any], source: Source, once: Plan, which: str = ""
) -> Callable[[], Any]:
    """Run the generative fit and the survey; return what makes the start half way to random examples."""
    labelled, of_words = len(source.classes) > 0, isinstance(em.model, NaiveBayes)
    numbers = np.bincount(em.model.head.component_class).tolist()
    model = replace(em.model, head=Classes(len(numbers), () if labelled else (0,)))
    if of_words:
        model = replace(model, class_alpha=0.0)
    rule = ClosedForm(complete=labelled or of_words)
    generative = SdEM(model, source.weight, rule, class_weight=em.class_weight)
    classes: Any = trainer.run(Stage(f"classes{which}", generative, once, corpus=source.documents)).state
    survey = surveyed(trainer, source, once, max(numbers), f"survey{which}", labelled=labelled)
    positions = np.concatenate(examples_of(survey, numbers))

    def half_way() -> Any:
        if not of_words:
            examples = starts.rows_at(source.corpus, positions)
            return starts.features_at_examples(examples, numbers, em.model.variables, classes)
        documents = (starts.rows_at(source.corpus, [position])[0] for position in positions)
        counts = source.class_counts if labelled else (source.weight,)
        return state_at(*starts.counts_at_examples(documents, numbers, classes.words, counts))

    return half_way


def start_at_clusters(em: SdEM[Any], source: Source, survey: SurveyResult, seed: int) -> Any:
    """Return the start of a mixture at the clusters of k-means of the documents that a survey has drawn."""
    n_clusters, positions = len(em.model.head.component_class), sampled_positions(survey)
    if isinstance(em.model, NaiveBayes):
        drawn = Documents.concatenate([cast(Documents, source.corpus.read(i, i + 1)) for i in positions])
        return state_at(*starts.counts_by_k_means(drawn, n_clusters, em.model.alpha, seed))
    rows = starts.rows_at(source.corpus, positions)
    return starts.features_by_k_means(rows, n_clusters, em.model.variables, source.weight, seed)


def train_with_unlabelled(nb: Any, trainer: Trainer, source: Source) -> tuple[Trained, Source]:
    """Run EM over all documents and the training of labelled ones from there; or that of labelled documents alone.

    Return the documents, too, as the model weighs them. `nb`: the `MultinomialNB`, which trains labelled ones alone.

    EM with hidden classes (Nigam et al. 2000) explains all documents. Training starts at its log-odds, times a weight.
    The weight is small: naive Bayes is far too sure, and where it is sure no document asks for a step, so that
    discriminative training would keep its errors. So it is in units of the margin, as steps are.
    """
    weight = None if nb.unlabelled_weight == "auto" else float(nb.unlabelled_weight)
    corpus = source.corpus.labelled()
    labelled = replace(source, corpus=corpus, weight=source.n_labelled)
    if source.weighting is not None:
        # Labelled documents alone say how rare a word is: tf-idf of all documents makes words of a frequent class weak,
        # which hurts where few have a label. Words that labelled documents lack count as words of one of them.
        frequency, n_labelled = corpus.document_frequency, corpus.n_documents
        labelled = labelled.weighed_by(frequency, n_labelled)
        is_frequent = cast(Any, source.corpus).document_frequency >= source.weighting.min_df
        source = source.weighed_by(np.where(is_frequent, np.maximum(frequency, 1), 0), n_labelled, min_df=1)
    trainer, labelled_trainer = _seeing(trainer, source), _seeing(trainer, labelled)
    candidate = nb._candidate(source, None)
    learner = replace(candidate.learner, n_documents=source.n_labelled)
    initial = cast(MadeByWorkers[SdemState], candidate.initial).block(0, 1)
    plan = replace(candidate.plan, n_epochs=defaults.FEW_EPOCHS) if nb.n_epochs == "auto" else candidate.plan
    some = plans.sample(source)

    def begin(trial: SdEM[Any], which: str = "") -> tuple[Callable[[], SdemState], float]:
        """Run EM; return what makes the start at its log-odds, and their weight."""
        model = replace(trial.model, alpha=defaults.UNLABELLED_ALPHA, class_alpha=0.0)
        em = SdEM(model, source.weight, ClosedForm(), held_out=trial.held_out, seed=trial.seed)
        lanes = plans.lanes_of(plan.n_documents, defaults.SUM_TASK_DOCUMENTS)
        once = replace(plan, n_epochs=defaults.UNLABELLED_EM_EPOCHS, n_rounds=1, n_lanes=lanes, growth=0)
        generative: SdemState = trainer.run(Stage(f"unlabelled{which}", em, once)).state
        used = weight_of_margin(generative, some, defaults.UNLABELLED_MARGIN) if weight is None else weight
        return partial(start_at, initial, generative, used), used

    def of_all(trial: SdEM[Any], which: str) -> tuple[Any, str]:
        start, used = begin(trial, which)
        return start, f"weight {used:.2g}{which}"

    def of_labelled() -> Candidate:
        loss = first_loss(labelled) if nb.loss == "auto" else nb.loss  # as they would be trained
        trial = nb._candidate(labelled, loss)
        # Both read the whole corpus, so that the same documents are held out; no label, no step.

        def start(_: object, which: str) -> tuple[Any, str]:
            return trial.initial, f"labelled alone{which}"

        return Candidate(trial.learner, plan, stage="labelled documents alone", start=start, view=labelled)

    figures, calibrate = dict[str, float](), nb.calibrate and nb.holds_out
    if source.n_labelled < defaults.UNLABELLED_LEAST:  # too few to hold some out of EM
        if weight != 0.0 and calibrate and labelled.n_documents >= 2 * defaults.N_FOLDS:
            # The temperature is of labelled documents alone, by folds; losses differ in theirs, so with the same loss.
            policy = HoldoutPolicy(labelled_trainer, labelled, 0.0)
            by_folds = policy.choose_by_folds([lambda: nb._candidate(labelled, learner.loss)])
            learner = replace(learner, temperature=by_folds.temperature)
    elif nb.holds_out and (weight is None or (weight and calibrate)):
        share, n_draws = defaults.UNLABELLED_SHARE, defaults.UNLABELLED_DRAWS
        policy = HoldoutPolicy(trainer, source, share, every=plan.n_epochs, n_draws=n_draws)
        candidates = [lambda: Candidate(learner, plan, stage="all documents", start=of_all), of_labelled]
        result = policy.choose(candidates[: 2 if weight is None else 1])
        helped = result.draws[0]
        if weight is None:
            figures = _means(helped, "with_unlabelled") | _means(result.draws[1], "without_unlabelled")
            gain, error = gain_of(result.draws[1], helped)
            figures |= {"with_unlabelled_gain": gain, "with_unlabelled_gain_error": error}
        if result.candidate.view is not None:
            weight = 0.0
        else:
            learner = replace(learner, temperature=float(helped.temperature.mean()) if calibrate else 1.0)
            figures |= _means(helped, "held_out")
    if weight == 0.0:
        end, source = nb.train(labelled_trainer, labelled), labelled
    else:
        start, weight = begin(learner)
        # The name tells a resumed run whether the weight is still the same.
        end = final_stage(trainer, learner, plan, start, f", unlabelled_weight {weight:g}")
    figures["unlabelled_weight"] = weight
    # Held-out figures are of the whole training: the last entry alone has them, so that none takes them for a curve.
    every = {name: value for name, value in figures.items() if not name.startswith("held_out_")}
    *earlier, last = end.history
    return end._replace(history=[*({**entry, **every} for entry in earlier), {**last, **figures}]), source


def _seeing(trainer: Trainer, documents: Source) -> Trainer:
    """Return a trainer whose stages see these documents, not the fit's; those of validation are weighed as they are."""

    def changed(stage: AnyStage) -> AnyStage:
        return replace(stage, corpus=stage.corpus or documents.documents, reweighed=stage.reweighed or documents.seen)

    return trainer.changed(changed)


def _means(draws: Draws, which: str) -> dict[str, float]:
    return {f"{which}_accuracy": float(draws.accuracy.mean()), f"{which}_log_loss": float(draws.log_loss.mean())}


def start_at(initial: SdemState, generative: SdemState, weight: float) -> SdemState:
    """Return a start whose scores are those of a generative model, times a weight, up to a constant of each document.

    Every word's pseudo-counts keep their geometric mean over columns, which steps are in units of.
    """
    log_words = np.log(generative.words) - np.log(generative.totals)
    log_words -= log_words.mean(axis=1, keepdims=True)
    words = initial.words * np.exp(weight * log_words, out=log_words)
    return initial._replace(words=words, totals=words.sum(axis=0))


def weight_of_margin(
    generative: SdemState, documents: Documents, margin: float, component_class: tuple[int, ...] = ()
) -> float:
    """Return the weight at which a generative model's best class leads by a margin in the median document; 1 at most.

    It has two digits, as people read it. Documents count by their weights.

    `component_class`: the class of each column, where classes have components.
    """
    weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
    used = weights > 0
    if not used.any():
        return 1.0
    scores = documents.to_csr()[used] @ (np.log(generative.words) - np.log(generative.totals))
    scores = by_class(scores, component_class)[0] if component_class else scores
    second, first = np.partition(scores, scores.shape[1] - 2, axis=1)[:, -2:].T
    leads = first - second
    order = np.argsort(leads)
    below = np.cumsum(weights[used][order])
    # The median by weights; of equal weights it is NumPy's.
    lower, upper = (np.searchsorted(below, 0.5 * below[-1], side) for side in ("left", "right"))
    median = float(0.5 * (leads[order[lower]] + leads[order[upper]]))
    return float(f"{min(1.0, margin / max(median, margin)):.2g}")
