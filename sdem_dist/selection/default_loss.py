"""What ``loss="auto"`` stands for in a search: the rule of a fit decides, with scores of the default by the folds."""

from collections.abc import Mapping

from sklearn.base import clone

from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.naive_bayes import MultinomialNB
from sdem_dist.fitting.holdout import first_loss, may_overlap
from sdem_dist.inputs.spec import Source
from sdem_dist.selection.trials import MONITOR, Trial


def is_open(estimator: EngineEstimator) -> bool:
    """Whether a search has to settle what loss an estimator's settings are trained with."""
    return type(estimator) is MultinomialNB and estimator.loss == "auto" and estimator.unlabelled is None


def begun(estimator: EngineEstimator, source: Source) -> EngineEstimator:
    """Return a clone of an estimator; where its classes cannot overlap, ``loss="auto"`` is a loss at once."""
    found = clone(estimator)
    if is_open(found) and not may_overlap(source, 0.0):
        found.set_params(loss=first_loss(source))
    return found


def names_of_default(estimator: EngineEstimator) -> list[dict[str, object]]:
    """Return the settings that are the default in other words: folds settle its loss and train the hinge loss first."""
    return [{}, {"loss": "hinge"}] if is_open(estimator) else [{}]


def waits(params: Mapping[str, object]) -> bool:
    """Whether a setting has the default's loss, which has to be settled before."""
    return "loss" not in params


def ncll_is_tried(hinge: Trial, source: Source) -> bool:
    """Whether a fit would try NCLL, too, given what the folds say of the hinge loss."""
    return may_overlap(source, float(hinge.scores["accuracy"].mean()))


def lower(hinge: Trial, ncll: Trial) -> Trial:
    """Return the loss with the lower log-loss in the folds; of equals the hinge loss."""
    return ncll if ncll.score(MONITOR) > hinge.score(MONITOR) else hinge
