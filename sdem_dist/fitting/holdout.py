"""Documents held out of training: they choose the training time, the loss, and the temperature of probabilities."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from sdem_dist.corpus.folds import folds_of, held_out_of
from sdem_dist.engine.plan import VALIDATION, AnyStage, MadeByWorkers, Monitoring, Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.evaluation import Scored, class_sums, few_documents_metrics, joined, macro_f1
from sdem_dist.fitting import defaults, plans
from sdem_dist.inputs.spec import HoldOut, Source, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners import rules, starts
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.word_counts import SdemState

MONITOR = "tempered_log_loss"  # the metric that decides: log-loss at the best temperature
CURVE_POINTS = 10  # approximate number of evaluations of held-out documents during the training of a mixture
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidate:
    """A way to train, to be evaluated on held-out documents."""

    learner: Any
    plan: Plan
    initial: Any = None  # the initial state, see `Stage`
    stage: str = "choose"
    # If the start depends on the held-out documents: (learner, name of the draw) -> (initial state, name of the stage)
    start: Callable[[Any, str], tuple[Any, str]] | None = None
    view: Source | None = None  # the source that weighs documents and knows words, if not the policy's


class HoldoutResult(NamedTuple):
    """The evaluation of a candidate on held-out documents."""

    candidate: Candidate
    log_loss: np.ndarray  # of each draw (all folds are one draw), shape (n_draws,)
    accuracy: np.ndarray
    temperatures: np.ndarray
    n_epochs: int  # for the training with all documents: one evaluation past the best, since more documents allow it
    history: list[dict[str, float]]  # metrics of each of these epochs; for folds, one entry for the whole training
    state: Any  # the model of the first draw, trained without its held-out documents; None for folds
    figures: dict[str, float]  # all metrics of the best epoch
    scored: Sequence[Scored] = ()  # held-out documents of folds, scored
    tried: Sequence[Any] = ()  # the results of all candidates, in order

    @property
    def known(self) -> bool:
        """Whether any held-out document has a weight above 0."""
        return bool(np.isfinite(self.log_loss).any())

    @property
    def temperature(self) -> float:
        """The temperature of the last of `n_epochs`, since longer training makes a model more confident."""
        return float(self.temperatures[0])

    def means(self, which: str) -> dict[str, float]:
        return {f"{which}_accuracy": float(self.accuracy.mean()), f"{which}_log_loss": float(self.log_loss.mean())}


@dataclass(frozen=True)
class HoldoutPolicy:
    """How documents are held out, and what is chosen on them."""

    trainer: Trainer
    source: Source
    share: float  # share of the documents that is held out; 0: folds
    patience: int | None = None  # end a training after this many epochs without a lower log-loss; None: never
    every: int = 1  # epochs between two evaluations
    n_draws: int = 1  # draws of held-out documents per candidate
    # From the first candidate's result: whether to try others. Draws then end once the last candidate is no better.
    doubt: Callable[[HoldoutResult], bool] | None = None

    def choose(self, candidates: Iterator[Candidate]) -> HoldoutResult:
        """Return the result of the best candidate; a later one wins only if `is_better` than the best so far.

        If `share` is 0 (few documents), a draw is a fold: candidates are trained without it, for more folds until
        enough documents are scored. Folds choose the temperature, but no training time.
        """
        run, n_draws = (self._without_share, self.n_draws) if self.share else (self._without_fold, defaults.N_FOLDS)

        def pooled(of_one: list[HoldoutResult]) -> HoldoutResult:
            scored = [part for draw in of_one for part in draw.scored]
            return self._pooled(of_one[0].candidate, scored) if scored else _joined(of_one)

        draws = [[first := run(next(candidates), 0)]]
        if self.doubt is None or (first.known and self.doubt(first)):
            draws += [[run(candidate, 0)] for candidate in candidates]
        for draw in range(1, n_draws):
            if self.doubt is not None and not gain_of(pooled(draws[0]), pooled(draws[-1]))[0] > 0.0:
                break  # not better so far: further draws are not worth their time
            for of_one in draws:
                of_one.append(run(of_one[0].candidate, draw))
        tried, best = list(map(_joined, draws)), 0
        for number in range(1, len(tried)):
            if is_better(tried[best], tried[number]):
                best = number
        if len(tried) > 1:
            _log.info("chosen on held-out documents: %r", tried[best].candidate.stage)
        if self.share:
            return tried[best]._replace(tried=tried)
        folds = list[HoldoutResult]()
        while len(folds) < n_draws and sum(len(fold.scored[0].labels) for fold in folds) < defaults.FOLDS_HELD_OUT:
            draw = len(folds)
            folds.append(draws[best][draw] if draw < len(draws[best]) else run(tried[best].candidate, draw))
        return pooled(folds)

    def _without_share(self, candidate: Candidate, draw: int) -> HoldoutResult:
        view, corpus = candidate.view or self.source, self.source.corpus
        seed = (candidate.learner.seed + (draw << 20)) % (1 << 64)
        learner = replace(candidate.learner, held_out=self.share, seed=seed)
        initial, name = candidate.initial, candidate.stage + (f", repeat {draw + 1}" if draw else "")
        if candidate.start is not None:
            initial, name = candidate.start(learner, f", repeat {draw + 1} of {self.n_draws}")
        frequency = corpus if candidate.view is None else cast(Any, view.corpus).document_frequency
        held_out = view.seen(corpus.transformed(HoldOut(frequency, seed, self.share)))
        shown = "accuracy", *(["macro_f1"] if has_rare_classes(view) else []), MONITOR
        stopping = self.patience, defaults.IMPROVEMENT
        monitoring = Monitoring(self.every, held_out, MONITOR, *stopping, training=False, main_metrics=shown)
        watched, monitored = VALIDATION + MONITOR, candidate.start is None and candidate.view is None
        stage = Stage(name, learner, candidate.plan, initial, view.seen(corpus), monitored, monitoring)
        result = self.trainer.run(stage)
        scored = [entry for entry in result.history if watched in entry] or result.history[-1:]
        best = last = scored[-1]
        if self.patience is not None:
            best = scored[0]
            for entry in scored[1:]:
                if entry[watched] < (1.0 - defaults.IMPROVEMENT) * best[watched]:
                    best = entry
            later = (entry for entry in scored if entry["epoch"] > best["epoch"])
            last = next(later, best) if self.share > defaults.NO_REFIT else best
        n_epochs = int(last["epoch"])
        history = [held_out_figures(entry, self.source) for entry in result.history[:n_epochs]]
        log_loss, accuracy = np.array([[best.get(watched, np.nan)], [best.get(f"{VALIDATION}accuracy", 1.0)]])
        temperatures = np.array([learner.temperature * last.get(f"{VALIDATION}temperature", 1.0)])
        return HoldoutResult(candidate, log_loss, accuracy, temperatures, n_epochs, history, result.state, best)

    def _without_fold(self, candidate: Candidate, number: int) -> HoldoutResult:
        folds = folds_of(self.source.corpus, defaults.N_FOLDS, candidate.learner.seed)
        rest: Any = folds.train(number)
        # Words that occur only in the held-out fold are unknown.
        weighed = self.source.weighed_by(rest.document_frequency, int(np.count_nonzero(rest.weights)))
        learner = replace(candidate.learner, n_documents=rest.weight)
        name = f"fold {number + 1} of {defaults.N_FOLDS}{candidate.stage.removeprefix('choose')}"
        state = self.trainer.run(Stage(name, learner, candidate.plan, candidate.initial, weighed.seen(rest))).state
        documents: Any = weighed.seen(folds.test(number)).read(0, rest.n_documents)
        local = learner.prepare(documents[np.flatnonzero(documents.weights > 0)])
        return self._pooled(candidate, [learner.model.scored(state, local, 1.0, 0)])

    def _pooled(self, candidate: Candidate, parts: Sequence[Scored]) -> HoldoutResult:
        """Return the evaluation of a candidate on all folds as one draw, at one temperature."""
        scores, labels, weights = joined(parts)[:3]
        accuracy, log_loss, temperature = few_documents_metrics(scores, labels, weights)
        figures = {"fold_accuracy": accuracy, "fold_log_loss": log_loss}
        if has_rare_classes(self.source) and len(labels):
            figures["fold_macro_f1"] = macro_f1(class_sums(scores, labels, weights))
        losses, accuracies, temperatures = np.array([[log_loss], [accuracy], [temperature]])
        n_epochs, history = candidate.plan.n_epochs, [figures]
        return HoldoutResult(candidate, losses, accuracies, temperatures, n_epochs, history, None, figures, parts)

    def train(self, result: HoldoutResult, learner: Any) -> Trained:
        """Train with all documents as chosen, or keep the model of the choice if few documents were held out."""
        # Continuing the chosen model for one pass over all documents would take half the time, but it would visit the
        # held-out documents, and words that only they have, once, and all others several times.
        plan, initial = result.candidate.plan, result.candidate.initial
        if not result.known:
            _log.warning("no held-out document has a weight above 0: no parameters are tuned, and the temperature is 1")
            plan = plan if self.patience is None else replace(plan, n_epochs=defaults.FEW_EPOCHS)
            return final_stage(self.trainer, result.candidate.learner, plan, initial)
        _log.info("chosen on held-out documents: %d epochs, temperature %.3g", result.n_epochs, result.temperature)
        if result.state is not None and (self.share <= defaults.NO_REFIT or not self.source.retrain):
            return Trained(learner, result.state, result.history)
        end = final_stage(self.trainer, learner, replace(plan, n_epochs=result.n_epochs), initial)
        if result.state is None:  # in the last entry only: it describes the whole training, not a curve
            return end._replace(history=[*end.history[:-1], {**end.history[-1], **result.history[0]}])
        history = [{**held_out, **entry} for held_out, entry in zip(result.history, end.history, strict=False)]
        return end._replace(history=history)


def _joined(draws: Sequence[HoldoutResult]) -> HoldoutResult:
    """Return the draws of a candidate as one result, without draws that held out no document."""
    finite = [draw for draw in draws if np.isfinite(draw[1:4]).all()] or draws[:1]
    log_loss, accuracy, temperatures = map(np.concatenate, zip(*(draw[1:4] for draw in finite), strict=True))
    return draws[0]._replace(log_loss=log_loss, accuracy=accuracy, temperatures=temperatures)


def is_better(first: HoldoutResult, second: HoldoutResult) -> bool:
    """Return whether the second has a mean log-loss lower by more than the standard error, and no lower accuracy."""
    gain, error = gain_of(first, second)
    return bool(gain > error and second.accuracy.mean() >= first.accuracy.mean())


def gain_of(first: HoldoutResult, second: HoldoutResult) -> tuple[float, float]:
    """Return the mean decrease of log-loss from the first to the second, and its standard error (0 for one draw)."""
    gain = first.log_loss - second.log_loss
    return float(gain.mean()), float(gain.std(ddof=1) / len(gain) ** 0.5) if len(gain) > 1 else 0.0


def held_out_figures(entry: dict[str, float], source: Source) -> dict[str, float]:
    """Return the metrics of held-out documents from an entry of a history."""
    figures = {name: entry[name] for name in ("epoch", "seconds")}
    for name, metric in ("accuracy", "accuracy"), ("log_loss", MONITOR), ("macro_f1", "macro_f1"):
        if VALIDATION + metric in entry and (name != "macro_f1" or has_rare_classes(source)):
            figures[f"held_out_{name}"] = entry[VALIDATION + metric]
    return figures


def share_held_out(share: float, n_documents: int, least: int = defaults.FEW_HELD_OUT) -> float:
    share = min(share, defaults.MAX_HELD_OUT / n_documents)
    return share if share * n_documents >= least else 0.0


def has_rare_classes(source: Source) -> bool:
    """Return whether some classes are so rare that accuracy hides errors on them."""
    sizes = np.array([n for n in source.class_counts if n > 0])
    return len(sizes) > 1 and source.members is None and bool(sizes.min() < defaults.RARE_CLASS * sizes.max())


def first_loss(source: Source) -> str:
    """Return the default loss before any document is held out: NCLL for few documents of three or more even classes."""
    # With few documents, all rival classes score about the same. The hinge loss moves only the strongest, NCLL all of
    # them. But NCLL predicts a larger class too often, since each of its documents moves all other classes.
    if source.n_documents >= defaults.DOCUMENTS_A_CLASS * len(source.classes):
        return "hinge"
    sizes = np.array([n for n in source.class_counts if n > 0])
    largest = sizes.max() / np.median(sizes)
    loss = "ncll" if len(sizes) > 2 and largest <= defaults.EVEN_CLASSES else "hinge"
    _log.info("%d classes have few documents (largest / median size: %.3g): the loss is %s", len(sizes), largest, loss)
    return loss


def train_with_temperature(estimator: Any, trainer: Trainer, source: Source) -> Trained:
    """Train a mixture without held-out documents, choose the temperature on them, then train on all documents."""
    # Components treat words or columns as independent, which they are not: probabilities are far too confident.
    share, seed = float(estimator.validation_fraction), seed_of(estimator.random_state)
    # A class of weight 0 has probability 0, whatever the temperature.
    sizes = defaults.FEW_HELD_OUT, defaults.MAX_HELD_OUT
    held_out = held_out_of(source.corpus, share, seed, *sizes, plans.weights_of_classes(estimator, source))
    if held_out is None:
        return estimator._train(trainer, source)
    training, scored = source.corpus.within(~held_out), source.corpus.within(held_out)
    if source.corpus.header.layout == "sparse":  # words that occur only in these documents are unknown
        scored = scored.transformed(HoldOut(source.corpus.document_frequency))
    # With patience, the training with all documents runs first, and sets the length of the other training.
    trained = None if estimator.patience is None else estimator._train(trainer, source)
    n_epochs = 0 if trained is None else int(estimator._best_entry(trained.history)["epoch"])

    def without(stage: AnyStage) -> AnyStage:
        if stage.name == "columns":  # units and categories are those of all documents
            return stage
        plan = replace(stage.plan, n_epochs=n_epochs) if n_epochs and stage.monitored else stage.plan
        every = max(1, plan.n_epochs // CURVE_POINTS)
        watch = Monitoring(every, source.seen(scored), training=False, main_metrics=("accuracy", MONITOR))
        changes: dict[str, Any] = {"plan": plan, "monitoring": watch if stage.monitored else None}
        return replace(stage, name=f"{stage.name}, without held-out documents", corpus=source.seen(training), **changes)

    reduced = replace(source, corpus=cast(Any, training), weight=training.weight, class_counts=training.class_weights)
    history = estimator._train(trainer.changed(without), reduced).history
    temperature = history[-1][f"{VALIDATION}temperature"]
    if not np.isfinite(temperature):
        return trained or estimator._train(trainer, source)
    _log.info("chosen on held-out documents: temperature %.3g", temperature)

    def tempered(stage: AnyStage) -> AnyStage:
        learner: Any = stage.learner
        return replace(stage, learner=replace(learner, temperature=temperature)) if stage.monitored else stage

    trained = trained or estimator._train(trainer.changed(tempered), source)
    learner = replace(trained.learner, temperature=temperature)
    figures = {entry["epoch"]: held_out_figures(entry, source) for entry in history}
    return Trained(learner, trained.state, [{**figures.get(e["epoch"], {}), **e} for e in trained.history])


def train_with_unlabelled(nb: Any, trainer: Trainer, source: Source) -> tuple[Trained, Source]:
    """Run EM over all documents and train on the labelled ones from its result, or train on labelled documents only.

    Also return the source as the model weighs it. Training starts at the log-odds of EM (Nigam et al. 2000) times a
    weight. The weight is small, in units of the margin: naive Bayes is far too confident, confident documents cause no
    steps, and so discriminative training would keep its errors.
    """
    weight = None if nb.unlabelled_weight == "auto" else float(nb.unlabelled_weight)
    corpus = source.corpus.labelled()
    labelled = replace(source, corpus=corpus, weight=source.n_labelled)
    if source.weighting is not None:
        # Only labelled documents count for idf: tf-idf of all documents would weaken the words of a frequent class,
        # which hurts if few have a label. Words in no labelled document get the document frequency 1.
        frequency, n_labelled = corpus.document_frequency, corpus.n_documents
        labelled = labelled.weighed_by(frequency, n_labelled)
        is_frequent = cast(Any, source.corpus).document_frequency >= source.weighting.min_df
        source = source.weighed_by(np.where(is_frequent, np.maximum(frequency, 1), 0), n_labelled, min_df=1)

    def seen(of: Source, stage: AnyStage) -> AnyStage:
        """Let a stage run on the documents of a source, and weigh validation documents in the same way."""
        return replace(stage, corpus=stage.corpus or of.documents, reweighed=stage.reweighed or of.seen)

    trainer, labelled_trainer = (trainer.changed(partial(seen, of)) for of in (source, labelled))
    candidate = nb._candidate(source, None)
    learner = replace(candidate.learner, n_documents=source.n_labelled)
    initial = cast(MadeByWorkers[SdemState], candidate.initial).block(0, 1)
    plan = replace(candidate.plan, n_epochs=defaults.FEW_EPOCHS) if nb.n_epochs == "auto" else candidate.plan
    sampled, used = plans.sample(source), weight or 0.0

    def begin(trial: SdEM[Any], which: str = "") -> tuple[Callable[[], SdemState], str]:
        """Run EM; return a function that makes the start at its log-odds, and a stage name that contains the weight."""
        nonlocal used
        model = replace(trial.model, alpha=defaults.UNLABELLED_ALPHA, class_alpha=0.0)
        em = SdEM(model, source.weight, rules.ClosedForm(), held_out=trial.held_out, seed=trial.seed)
        lanes = plans.lanes_of(plan.n_documents, defaults.SUM_TASK_DOCUMENTS)
        once = replace(plan, n_epochs=defaults.UNLABELLED_EM_EPOCHS, n_rounds=1, n_lanes=lanes, growth=0)
        generative: SdemState = trainer.run(Stage(f"EM with unlabelled documents{which}", em, once)).state
        if weight is None:
            used = starts.weight_of_margin(generative, sampled, defaults.UNLABELLED_MARGIN)
        return partial(starts.start_at, initial, generative, used), f"unlabelled_weight {used:g}{which}"

    figures, calibrate = dict[str, float](), nb.calibrate and nb.holds_out
    if source.n_labelled < defaults.UNLABELLED_LEAST:  # too few to hold out some of them
        if weight != 0.0 and calibrate and labelled.n_documents >= 2 * defaults.N_FOLDS:
            # Folds of labelled documents alone choose the temperature; it depends on the loss, so the loss is the same.
            policy = HoldoutPolicy(labelled_trainer, labelled, 0.0, doubt=lambda _: False)
            by_folds = policy.choose(iter([nb._candidate(labelled, learner.loss)]))
            learner = replace(learner, temperature=by_folds.temperature)
    elif nb.holds_out and (weight is None or (weight and calibrate)):
        # All candidates read the whole corpus, so that the same documents are held out; only labelled ones cause steps.
        candidates = [Candidate(learner, plan, stage="all documents", start=begin)]
        if weight is None:
            alone = nb._candidate(labelled, first_loss(labelled) if nb.loss == "auto" else nb.loss)
            candidates.append(replace(alone, plan=plan, stage="labelled documents only", view=labelled))
        drawn = defaults.UNLABELLED_SHARE, None, plan.n_epochs, defaults.UNLABELLED_DRAWS
        result = HoldoutPolicy(trainer, source, *drawn).choose(iter(candidates))
        helped, *without = result.tried
        if without:
            gain, error = gain_of(without[0], helped)
            figures = helped.means("with_unlabelled") | without[0].means("without_unlabelled")
            figures |= {"with_unlabelled_gain": gain, "with_unlabelled_gain_error": error}
        if result.candidate.view is not None:
            weight = used = 0.0
        else:
            learner = replace(learner, temperature=float(helped.temperatures.mean()) if calibrate else 1.0)
            figures |= helped.means("held_out")
    if weight == 0.0:
        end, source = nb.train(labelled_trainer, labelled), labelled
    else:
        start, name = begin(learner)
        end = final_stage(trainer, learner, plan, start, f", {name}")
    figures["unlabelled_weight"] = used
    # Held-out metrics describe the whole training, not a curve: only the last entry has them.
    constant = {name: value for name, value in figures.items() if not name.startswith(("held_out_", "fold_"))}
    *earlier, last = end.history
    return end._replace(history=[*({**entry, **constant} for entry in earlier), {**last, **figures}]), source
