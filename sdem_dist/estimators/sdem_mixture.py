"""Classification by mixtures that sdEM trains, from where EM ends."""

from dataclasses import replace

from sdem_dist.engine.stages import Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators.mixture import VALIDATION_FRACTION, JointMixture
from sdem_dist.estimators.parameters import a_loss, either, estimator, integer, one_of, param
from sdem_dist.fitting import plans
from sdem_dist.fitting.unlabelled import start_at, weight_of_margin
from sdem_dist.fitting.weighting import sample
from sdem_dist.inputs.source import Source
from sdem_dist.inputs.spec import Trained, final_stage
from sdem_dist.learners.rules import Merge
from sdem_dist.learners.safe_step import SafeStep
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.step_sizes import STEP_OF_COUNTS, margin_steps
from sdem_dist.losses import OURS_ALONE, Loss, kernel_form, named
from sdem_dist.models.feature_classes import started
from sdem_dist.models.unit import unit_of

START_SHARE = 0.001
"""Share of EM's expected counts that sdEM of counts starts with; a step, one document, would hardly move them all."""
MARGIN = 1.0
"""Lead of the first class over the second at the start, in the median document; the hinge loss asks for as much."""
EPOCHS, EPOCHS_OF_COUNTS = 60, 15


@estimator
class SdemMixtureClassifier(JointMixture):
    """A classifier whose classes are mixtures of components, trained by sdEM with the component as hidden variable.

    EM fits the joint distribution first, of all documents. Rows of a table without a label then take part through
    ``-ln p(x)``; documents of counts without one do not.

    References
    ----------
    Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 2.

    Examples
    --------
    >>> from sdem_dist import SdemMixtureClassifier
    >>> X, y = [[1.0, 0.0], [2.0, 0.5], [0.0, 3.0], [0.5, 2.0], [1.0, 0.2], [0.2, 2.5]], [0, 0, 1, 1, 0, 1]
    >>> SdemMixtureClassifier(1).fit(X, y).predict([[2.0, 0.0], [0.0, 2.0]]).tolist()
    [0, 1]
    """

    loss: str | Loss = param(
        "ncll", either(one_of("ncll", "hinge", "nll"), a_loss()), "What training lowers, as in `MultinomialNB`."
    )
    n_epochs: int | None = param(
        None, integer(optional=True), f"Passes over the documents. None: {EPOCHS}; {EPOCHS_OF_COUNTS} of multinomials."
    )
    n_em_epochs: int = param(10, integer(), "Iterations of EM before them.")
    validation_fraction: float = param(0.0, *VALIDATION_FRACTION)  # training lowers the log-loss itself

    @property
    def _n_epochs(self) -> int:
        return self.n_epochs or (EPOCHS_OF_COUNTS if self.components == "multinomial" else EPOCHS)

    def _train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stages that find a start, EM, and sdEM from where it ends."""
        if self.components == "multinomial":
            return self._of_counts(trainer, source)
        start = self._start_of_features(trainer, source)
        em, once = start.learner, start.once
        fitted = trainer.run(Stage("EM", em, replace(once, n_epochs=self.n_em_epochs), start.state)).state
        share = float(self.unlabelled_weight)
        learner = SdEM(em.model, source.weight, SafeStep(), named(self.loss), em.class_weight, share)
        # A component without documents would stop every step of the class counts.
        initial = started(fitted.best_counts + em.model.class_alpha, fitted.best_mu)
        return final_stage(trainer, learner, replace(once, n_epochs=self._n_epochs), initial)

    def _of_counts(self, trainer: Trainer, source: Source) -> Trained:
        start = self._start_of_counts(trainer, source)
        em, once, n_epochs = start.learner, start.once, self._n_epochs
        fitted = trainer.run(Stage("EM", em, replace(once, n_epochs=self.n_em_epochs), start.state)).state
        if self.loss == "nll":
            return final_stage(trainer, em, replace(once, n_epochs=n_epochs), fitted)
        documents, alpha, class_alpha = sample(source), em.model.alpha, em.model.class_alpha
        prior = alpha + START_SHARE * (fitted.words.mean(axis=1) - alpha)
        sizes = margin_steps(STEP_OF_COUNTS, unit_of(documents, prior), alpha, class_alpha)
        kernel_form(self.loss, em.model.n_classes, OURS_ALONE)  # says what is wrong with it
        n_labelled = source.n_labelled or source.weight  # documents without a label ask for no step
        learner = SdEM(em.model, n_labelled, Merge(sizes), self.loss, em.class_weight, seed=once.seed)
        even = em.model.start_at(prior)._replace(class_counts=class_alpha + START_SHARE * fitted.class_counts)
        initial = start_at(even, fitted, weight_of_margin(fitted, documents, MARGIN, em.model.head.component_class))
        return final_stage(trainer, learner, plans.sequential(source.n_documents, n_epochs, once.seed), initial)
