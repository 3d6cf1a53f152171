"""Classification by mixtures that sdEM trains, from where EM ends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sdem_dist.engine.stages import Stage, Stages, state_of, trained
from sdem_dist.estimators import plans
from sdem_dist.estimators.base import Trained
from sdem_dist.estimators.mixture import JointMixture
from sdem_dist.estimators.mixture_starts import started
from sdem_dist.estimators.naive_bayes import absence_of
from sdem_dist.estimators.parameters import either, estimator, integer, one_of, param, real
from sdem_dist.learners.mixture_features import MixtureFeatures
from sdem_dist.losses import NAMED

if TYPE_CHECKING:
    from sdem_dist.estimators.source import Source

START_SHARE = 0.001
"""Share of EM's expected counts that sdEM of counts starts with; a step is a document, and would hardly move all of them."""
EPOCHS, EPOCHS_OF_COUNTS = 60, 15


@estimator
class SdemMixtureClassifier(JointMixture):
    """A classifier of which every class is a mixture of components, trained by sdEM with the component as hidden variable.

    EM fits the joint distribution first.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    log_weights_ : ndarray of shape (n_classes, n_components)
        ln p(z, y): -inf where a component is not the class's.
    theta_ : ndarray of shape (n_components, n_parameters)
        Natural parameters of the components; of multinomials ln p(word | component).
    n_features_in_ : int
    history_ : list of dict
        One entry an epoch, see `MultinomialNB`.
    n_iter_ : int

    References
    ----------
    Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 2.
    """

    loss: str = param("ncll", one_of("ncll", "hinge", "nll"), "What training lowers, as in `MultinomialNB`.")
    n_epochs: int | None = param(
        None, integer(optional=True), f"Passes over the documents. None: {EPOCHS}; {EPOCHS_OF_COUNTS} of multinomials."
    )
    n_em_epochs: int = param(10, integer(), "Iterations of EM before them.")
    absence: float | str = param(
        "auto", either(one_of("auto"), real(0, 1)), "As in `MultinomialNB`, for multinomial components."
    )

    def _check(self) -> None:
        super()._check()
        if self.components != "multinomial" and self.absence != "auto":
            raise ValueError(f"absence means nothing with components={self.components!r}: leave it at 'auto'")

    def stages(self, source: Source) -> Stages[Trained]:
        """Yield the stages that find a start, EM, and sdEM from where it ends."""
        start = yield from self._started(source)
        em, once = start.learner, start.once
        fitted = yield from state_of(Stage("EM", em, replace(once, n_epochs=self.n_em_epochs), start.state))
        if isinstance(em, MixtureFeatures):
            plan = replace(once, n_epochs=self.n_epochs or EPOCHS)
            learner = replace(em, loss=NAMED[self.loss])
            # A component without documents would stop every step of the class counts.
            initial = started(fitted.best_counts + learner.class_alpha, fitted.best_mu)
        elif self.loss == "nll":
            learner, initial = em, fitted
            plan = replace(once, n_epochs=self.n_epochs or EPOCHS_OF_COUNTS)
        else:
            absence = absence_of(self.absence, len(source.classes), source.weighted)
            learner = replace(em, loss=self.loss, absence=absence)
            words = em.alpha + START_SHARE * (fitted.words - em.alpha)
            initial = learner.start(words, learner.class_alpha + START_SHARE * fitted.class_counts)
            plan = plans.sequential(source.n_documents, self.n_epochs or EPOCHS_OF_COUNTS, once.seed)
        found = yield from trained(Stage("train", learner, plan, initial, monitored=True))
        return Trained(learner, found.state, found.history)
