"""Documents held out of training: they choose how long to train, which loss, and the temperature of probabilities."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np

from sdem_dist.calibration import best_temperature, tempered_losses
from sdem_dist.corpus.base import BaseCorpus
from sdem_dist.corpus.folds import Folds, Selection
from sdem_dist.documents import Documents
from sdem_dist.engine.plan import VALIDATION, AnyStage, Monitoring, Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.evaluation import Scored, class_sums, joined, macro_f1
from sdem_dist.fitting import defaults
from sdem_dist.fitting.plans import weights_of_classes
from sdem_dist.inputs.spec import HoldOut, Source, Trained, final_stage
from sdem_dist.inputs.validation import seed_of

MONITOR = "tempered_log_loss"  # the metric that decides: log-loss at the best temperature
THEN = "with this loss all documents get {after} epochs: more documents bear more steps"
CURVE_POINTS = 10  # evaluations of held-out documents in the training of a mixture, about
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidate:
    """A training that held-out documents judge."""

    learner: Any
    plan: Plan
    initial: Any = None  # where it starts, as of a `Stage`
    stage: str = "choose"
    # Where the start depends on what is held out: takes the learner of a draw, and which; returns it, a stage's name.
    start: Callable[[Any, str], tuple[Any, str]] | None = None
    view: Source | None = None  # how documents are weighed, and of which words are known, if not as the policy's are


class Draws(NamedTuple):
    """What held-out documents say of a candidate, shape (n_draws,) each."""

    log_loss: np.ndarray  # or another metric that has to be low
    accuracy: np.ndarray
    temperature: np.ndarray


class HoldoutResult(NamedTuple):
    """The candidate that held-out documents chose."""

    candidate: Candidate
    n_epochs: int  # for the training with all documents: one more than were worth it, as they bear more steps
    temperature: float  # of the last of these: longer training makes a model surer
    history: list[dict[str, float]]  # figures of each of these epochs; of folds one entry, of the whole training
    state: Any  # the model trained without them; None: several were
    figures: dict[str, float]  # all metrics of the epoch that was kept
    draws: list[Draws]  # of each candidate that was tried, in their order

    @property
    def known(self) -> bool:
        """Whether any held-out document has a weight above 0."""
        return bool(np.isfinite(self.draws[0].log_loss).any())


@dataclass(frozen=True)
class HoldoutPolicy:
    """How documents are held out, and what they decide."""

    trainer: Trainer
    source: Source
    share: float  # of the documents that is held out
    patience: int | None = None  # epochs without a lower log-loss that end a training; None runs all of its plan
    monitor: str = MONITOR  # the metric that has to be low
    every: int = 1  # epochs between two evaluations
    n_draws: int = 1  # of held-out documents, for each candidate
    # Takes the first candidate's result: whether others are tried, whose draws then end where they do no better.
    doubt: Callable[[HoldoutResult], bool] | None = None
    gate: bool = True  # a candidate that is less accurate never replaces one before it

    def choose(self, candidates: Sequence[Callable[[], Candidate]]) -> HoldoutResult:
        """Return the candidate with the lowest log-loss by more than draws differ, and how long it is to be trained."""
        first = self._score(candidates[0](), 0)
        if self.doubt is not None and not (first.known and self.doubt(first)):
            return first
        results = [first, *(self._score(make(), 0) for make in candidates[1:])]
        draws = [result.draws[0] for result in results]
        scored = [list(result.draws) for result in results]
        for draw in range(1, self.n_draws):
            if self.doubt is not None and not gain_of(draws[0], draws[-1])[0] > 0.0:  # not lower: no second look
                break
            for result, of_one in zip(results, scored, strict=True):
                of_one += self._score(result.candidate, draw).draws
            draws = [joined_draws(of_one) for of_one in scored]
        best = 0
        for number in range(1, len(draws)):
            if is_better(draws[best], draws[number], gate=self.gate):
                best = number
        if len(candidates) > 1:
            _log.info("held-out documents chose %r", results[best].candidate.stage)
        return results[best]._replace(draws=draws)

    def _score(self, candidate: Candidate, draw: int) -> HoldoutResult:
        """Run a training without the documents of a draw, scored after epochs."""
        view, seed, monitor = candidate.view or self.source, candidate.learner.seed, self.monitor
        learner = replace(candidate.learner, held_out=self.share, seed=(seed + (draw << 20)) % (1 << 64))
        name, initial = candidate.stage + (f", draw {draw + 1}" if draw else ""), candidate.initial
        if candidate.start is not None:
            initial, name = candidate.start(learner, f" {draw + 1} of {self.n_draws}")
        frequency = self.source.corpus if candidate.view is None else cast(Any, view.corpus).document_frequency
        others = ("accuracy", "macro_f1") if has_rare_classes(view) else ("accuracy",)
        refit = self.share > defaults.NO_REFIT
        monitoring = Monitoring(
            self.every,
            view.seen(self.source.corpus.transformed(HoldOut(frequency, learner.seed, self.share))),
            monitor,
            self.patience,
            defaults.IMPROVEMENT,
            training=False,
            main_metrics=(*others, monitor) if monitor == MONITOR else (monitor,),
            then=THEN if refit else Monitoring.then,
        )
        corpus, monitored = view.seen(self.source.corpus), candidate.start is None
        stage = Stage(name, learner, candidate.plan, initial, corpus, monitored=monitored, monitoring=monitoring)
        result = self.trainer.run(stage)
        scored = [entry for entry in result.history if VALIDATION + monitor in entry] or result.history[-1:]
        best = last = scored[-1]
        if self.patience is not None and len(scored) > 1:
            best = scored[0]
            for entry in scored[1:]:
                if entry[VALIDATION + monitor] < (1.0 - defaults.IMPROVEMENT) * best[VALIDATION + monitor]:
                    best = entry
            last = next((entry for entry in scored if refit and entry["epoch"] > best["epoch"]), best)
        n_epochs = int(last["epoch"])
        history = [held_out_figures(entry, monitor, self.source) for entry in result.history[:n_epochs]]
        temperature = learner.temperature * last.get(f"{VALIDATION}temperature", 1.0)
        log_loss, accuracy = best.get(VALIDATION + monitor, np.nan), best.get(f"{VALIDATION}accuracy", 1.0)
        draws = Draws(np.array([log_loss]), np.array([accuracy]), np.array([temperature]))
        return HoldoutResult(candidate, n_epochs, temperature, history, result.state, best, [draws])

    def choose_by_folds(self, candidates: Sequence[Callable[[], Candidate]]) -> HoldoutResult:
        """Return the better one of one or two candidates, and its temperature, by trainings without a fold each.

        Folds are scored in turn until enough is known. The second candidate is tried where `doubt` asks for it.
        """
        source, candidate, n_folds = self.source, candidates[0](), defaults.N_FOLDS
        folds = _folds(source.corpus, n_folds, candidate.learner.seed)
        parts, rival_parts = list[Scored](), list[Scored]()

        def score(candidate: Candidate, parts: list[Scored]) -> None:
            """Add the scores of the next fold, by a training without it."""
            number, weighed = len(parts), source
            rest = folds.train(number)
            if source.weighting is not None:  # words that the fold alone has are unknown
                documents = cast(Documents, source.corpus.read(0, source.n_documents))
                entries = np.repeat(cast(np.ndarray, rest.mask), np.diff(documents.indptr)) & (documents.data != 0)
                frequency = np.bincount(documents.indices[entries], minlength=source.n_features)
                weighed = source.weighed_by(frequency, int(cast(np.ndarray, rest.mask).sum()))
            learner = replace(candidate.learner, n_documents=rest.weight)
            name = f"fold {number + 1} of {n_folds}{candidate.stage.removeprefix('choose')}"
            stage = Stage(name, learner, candidate.plan, candidate.initial, weighed.seen(rest))
            state = self.trainer.run(stage).state
            documents = cast(Documents, weighed.seen(folds.test(number)).read(0, rest.n_documents))
            local = learner.prepare(documents.taken(np.flatnonzero(cast(np.ndarray, documents.weights) > 0)))
            parts.append(learner.model.scored(state, local, 1.0, 0))

        def result_of(candidate: Candidate, parts: list[Scored]) -> HoldoutResult:
            draws = summary(parts)
            figures = {"held_out_accuracy": draws.accuracy.item(), "held_out_log_loss": draws.log_loss.item()}
            if has_rare_classes(source) and np.isfinite(draws.accuracy).all():
                figures["held_out_macro_f1"] = macro_f1(class_sums(*joined(parts)[:3]))
            n_epochs, temperature = candidate.plan.n_epochs, draws.temperature.item()
            return HoldoutResult(candidate, n_epochs, temperature, [figures], None, figures, [draws])

        score(candidate, parts)
        if len(candidates) > 1 and self.doubt is not None and self.doubt(result_of(candidate, parts)):
            rival = candidates[1]()
            score(rival, rival_parts)
            while len(parts) < n_folds and summary(rival_parts).log_loss < summary(parts).log_loss:
                score(candidate, parts)
                score(rival, rival_parts)
            first, second = (joined_draws([summary([part]) for part in scored]) for scored in (parts, rival_parts))
            if is_better(first, second, gate=self.gate):
                candidate, parts = rival, rival_parts
            _log.info("classes overlap: held-out documents chose the loss %s", candidate.learner.loss)
        sizes = np.cumsum([len(part.labels) for part in parts])
        parts = parts[: int(np.searchsorted(sizes, defaults.FOLDS_HELD_OUT)) + 1]
        while len(parts) < n_folds and sum(len(part.labels) for part in parts) < defaults.FOLDS_HELD_OUT:
            score(candidate, parts)
        return result_of(candidate, parts)

    def train(self, result: HoldoutResult, learner: Any) -> Trained:
        """Run the training with all documents, as it was chosen, where those held out are more than a few."""
        # One more pass over all from where the choice ended takes half the time, but meets the held-out documents, and
        # the words that only they have, once, and all others several times.
        plan, initial = result.candidate.plan, result.candidate.initial
        if not result.known:
            _log.warning("no held-out document has a weight above 0: they choose nothing, and the temperature is 1")
            plan = plan if self.patience is None else replace(plan, n_epochs=defaults.FEW_EPOCHS)
            return final_stage(self.trainer, result.candidate.learner, plan, initial)
        _log.info("held-out documents chose %d epochs, and temperature %.3g", result.n_epochs, result.temperature)
        if result.state is not None and (self.share <= defaults.NO_REFIT or not self.source.retrain):
            return Trained(learner, result.state, result.history)
        end = final_stage(self.trainer, learner, replace(plan, n_epochs=result.n_epochs), initial)
        if result.state is None:  # in the last entry alone, so that nobody takes it for a curve
            return end._replace(history=[*end.history[:-1], {**end.history[-1], **result.history[0]}])
        history = [{**held_out, **entry} for held_out, entry in zip(result.history, end.history, strict=False)]
        return end._replace(history=history)


def _folds(corpus: Any, k: int, seed: int) -> Folds[Any]:
    """Return folds of a corpus; documents of groups that are too few for these are not kept together."""
    names = corpus.all_groups()
    few = names is not None and len(np.unique(names)) < k
    return Folds(corpus, k, seed, groups=np.arange(len(names)) if few else None)


def is_better(first: Draws, second: Draws, *, gate: bool = True) -> bool:
    """Whether the second is lower in log-loss, in the mean by more than its standard error, and as accurate."""
    gain, error = gain_of(first, second)
    return bool(gain > error and (not gate or second.accuracy.mean() >= first.accuracy.mean()))


def gain_of(first: Draws, second: Draws) -> tuple[float, float]:
    """Return by how much the second lowers log-loss, the mean over the draws, and its standard error; 0 of one draw."""
    gain = first.log_loss - second.log_loss
    return float(gain.mean()), float(gain.std(ddof=1) / len(gain) ** 0.5) if len(gain) > 1 else 0.0


def joined_draws(draws: Sequence[Draws]) -> Draws:
    """Return the draws that held out a document, those of one candidate, one after another."""
    finite = [one for one in draws if np.isfinite(one).all()] or draws[:1]
    return Draws(*(np.concatenate(column) for column in zip(*finite, strict=True)))


def held_out_figures(entry: dict[str, float], monitor: str, source: Source) -> dict[str, float]:
    """Return what a history says of held-out documents after an epoch."""
    figures = {name: entry[name] for name in ("epoch", "seconds")}
    for name, metric in ("accuracy", "accuracy"), ("log_loss", monitor), ("macro_f1", "macro_f1"):
        if VALIDATION + metric in entry and (name != "macro_f1" or has_rare_classes(source)):
            figures[f"held_out_{name}"] = entry[VALIDATION + metric]
    return figures


def share_held_out(share: float, n_documents: int, least: int = defaults.FEW_HELD_OUT) -> float:
    share = min(share, defaults.MAX_HELD_OUT / n_documents)
    return share if share * n_documents >= least else 0.0


def can_choose_epochs(source: Source, share: float) -> bool:
    """Whether held-out documents tell one class from another: those of one class alone are right from the start."""
    return share * source.n_documents * (1.0 - max(source.class_counts) / sum(source.class_counts)) >= defaults.TELLING


def has_rare_classes(source: Source) -> bool:
    """Whether some classes are so rare that accuracy hides how they fare."""
    sizes = np.array([n for n in source.class_counts if n > 0])
    return len(sizes) > 1 and source.members is None and bool(sizes.min() < defaults.RARE_CLASS * sizes.max())


def first_loss(source: Source) -> str:
    """Return the default loss before any document is held out: NCLL of few documents of three or more even classes."""
    # Of few documents every rival class is about as strong as the strongest. The hinge loss moves that one alone, NCLL
    # all of them. But NCLL finds a larger class too often, since each of its documents moves all the others.
    if source.n_documents >= defaults.DOCUMENTS_A_CLASS * len(source.classes):
        return "hinge"
    sizes = np.array([n for n in source.class_counts if n > 0])
    largest = sizes.max() / np.median(sizes)
    loss = "ncll" if len(sizes) > 2 and largest <= defaults.EVEN_CLASSES else "hinge"
    _log.info("few documents of %d classes, the largest %.3g times the median: loss %s", len(sizes), largest, loss)
    return loss


def summary(parts: list[Scored]) -> Draws:
    """Return the temperature that the folds' documents give, and their accuracy and log-loss at it, as one draw."""
    scores, labels, weights = joined(parts)[:3]
    if not len(labels):  # as of a fold whose documents all have weight 0
        return Draws(np.array([np.nan]), np.array([np.nan]), np.ones(1))
    least = np.maximum(scores, -1e300)
    gaps = least - least.max(axis=1, keepdims=True)
    second, best = np.partition(least, -2, axis=1)[:, -2:].T
    # One more document counts as wrong, by the median margin: none wrong does not show how rare errors are.
    wrong = np.full((1, scores.shape[1]), -1e300)
    wrong[0, :2] = 0.0, np.median(best - second)
    losses = tempered_losses(
        np.concatenate([gaps, wrong]), np.append(labels, 0).astype(np.intp), np.append(weights, 1.0)
    )
    temperature, _ = best_temperature(losses)
    gaps /= temperature
    log_p = gaps[np.arange(len(labels)), labels] - np.log(np.exp(gaps).sum(axis=1))
    hits = scores.argmax(axis=1) == labels
    accuracy, log_loss = np.average(np.column_stack([hits, -log_p]), axis=0, weights=weights)
    return Draws(np.array([log_loss]), np.array([accuracy]), np.array([temperature]))


def train_with_temperature(estimator: Any, trainer: Trainer, source: Source) -> Trained:
    """Run the training of a mixture without some documents, which give the temperature, and that with all."""
    # Components treat words or columns as independent, which they are not: classes seem far surer than they are.
    share, seed = float(estimator.validation_fraction), seed_of(estimator.random_state)
    # A class of weight 0 has probability 0, whatever the temperature.
    held_out = held_out_of(source.corpus, share, seed, weights_of_classes(estimator, source))
    if held_out is None:
        return estimator._train(trainer, source)
    rest, apart = source.corpus.within(held_out.others), source.corpus.within(held_out)
    scored: Any = apart
    if source.corpus.header.layout == "sparse":  # words that these documents alone have are unknown
        scored = apart.transformed(HoldOut(source.corpus.document_frequency))
    trained, n_epochs = None, 0
    if estimator.patience is not None:  # the training with all comes first, and the other one is as long
        trained = estimator._train(trainer, source)
        n_epochs = int(estimator._best_entry(trained.history)["epoch"])

    def without(stage: AnyStage) -> AnyStage:
        plan = replace(stage.plan, n_epochs=n_epochs) if n_epochs and stage.monitored else stage.plan
        every = max(1, plan.n_epochs // CURVE_POINTS)
        watch = Monitoring(every, source.seen(scored), training=False, main_metrics=("accuracy", MONITOR))
        corpus, name = stage.corpus or source.seen(rest), f"held out: {stage.name}"
        return replace(stage, name=name, plan=plan, corpus=corpus, monitoring=watch if stage.monitored else None)

    others = replace(source, corpus=cast(Any, rest), weight=rest.weight, class_counts=rest.class_weights)
    history = estimator._train(trainer.changed(without), others).history
    temperature = history[-1][f"{VALIDATION}temperature"]
    if not np.isfinite(temperature):
        return trained or estimator._train(trainer, source)
    _log.info("held-out documents chose temperature %.3g", temperature)

    def tempered(stage: AnyStage) -> AnyStage:
        learner: Any = stage.learner
        return replace(stage, learner=replace(learner, temperature=temperature)) if stage.monitored else stage

    trained = trained or estimator._train(trainer.changed(tempered), source)
    learner = replace(trained.learner, temperature=temperature)
    figures = [held_out_figures(entry, MONITOR, source) for entry in history]
    figures += [{}] * (len(trained.history) - len(history))
    return Trained(learner, trained.state, [{**h, **f} for h, f in zip(figures, trained.history, strict=False)])


def held_out_of(
    corpus: BaseCorpus, share: float, seed: int, class_weight: tuple[float, ...] | None = None
) -> Selection | None:
    """Return which documents to hold out, evenly of each class but never all of one; None if they would be too few."""
    labels, weights = corpus.labels(), corpus.weights
    counted = np.ones(corpus.n_documents, bool) if weights is None else weights > 0
    if labels is not None:
        counted &= (labels >= 0) & (True if class_weight is None else np.asarray(class_weight)[labels] > 0)
    n = int(counted.sum())
    if share <= 0 or min(share * n, defaults.MAX_HELD_OUT) < defaults.FEW_HELD_OUT:
        return None
    fewest, names = max(round(1 / share), -(-n // defaults.MAX_HELD_OUT)), corpus.all_groups()
    n_groups = n if names is None else len(np.unique(names))
    parts = min(defaults.HOLDOUT_PARTS, n_groups) if n_groups >= fewest else defaults.HOLDOUT_PARTS
    part = Fraction(share).limit_denominator(parts) if fewest < parts else Fraction(1, fewest)
    if part * n > defaults.MAX_HELD_OUT:
        part = Fraction(1, fewest)
    mask = counted & (_folds(corpus, part.denominator, seed).numbers < part.numerator)
    if labels is not None:
        remains = np.bincount(labels[counted & ~mask], minlength=int(labels.max()) + 1) > 0
        mask &= remains[labels]
    return Selection.of(mask) if mask.sum() >= defaults.FEW_HELD_OUT // 2 else None
