"""Classification by mixtures that EM fits: a few components for every class."""

from dataclasses import replace

from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators.em_settings import EmSettings, check_em, em_form, em_plan
from sdem_dist.estimators.mixture import JointMixture
from sdem_dist.estimators.parameters import estimator, integer, param
from sdem_dist.inputs.source import Source
from sdem_dist.inputs.spec import Trained, final_stage
from sdem_dist.learners.rules import ClosedForm


@estimator
class EMMixtureClassifier(EmSettings, JointMixture):
    """A classifier of which every class is a mixture of components, fitted by EM: mixture discriminant analysis.

    References
    ----------
    Saul, L. and Lee, D. (2001). Multiplicative Updates for Classification by Mixture Models. NIPS. (The baseline.)

    Examples
    --------
    >>> from sdem_dist import EMMixtureClassifier
    >>> X, y = [[1.0, 0.0], [2.0, 0.5], [0.0, 3.0], [0.5, 2.0], [1.0, 0.2], [0.2, 2.5]], [0, 0, 1, 1, 0, 1]
    >>> EMMixtureClassifier(1).fit(X, y).predict([[2.0, 0.0], [0.0, 2.0]]).tolist()
    [0, 1]
    """

    n_epochs: int = param(64, integer(), "Iterations of EM.")

    _monitor = "nll"
    _weights_are_relative = False

    def _check(self) -> None:
        super()._check()
        check_em(self)

    def _train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stages that find a start, and EM."""
        form = em_form(self)
        if self.components == "multinomial":
            counts = self._start_of_counts(trainer, source)
            plan = em_plan(self, replace(counts.once, n_epochs=self.n_epochs))
            return final_stage(trainer, replace(counts.learner, rule=ClosedForm(form)), plan, counts.state)
        start = self._start_of_features(trainer, source)
        learner = replace(start.learner, rule=ClosedForm(form, monitored=True), seed=start.once.seed)
        plan = em_plan(self, replace(start.once, n_epochs=self.n_epochs))
        return final_stage(trainer, learner, plan, start.state)
