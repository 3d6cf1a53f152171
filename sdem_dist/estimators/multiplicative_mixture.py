"""Classification by mixtures whose posterior is trained by multiplicative updates."""

from dataclasses import replace

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sdem_dist.corpus.base import OfValues
from sdem_dist.engine.plan import Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.classifier import weights_of_classes
from sdem_dist.estimators.mixture_classifiers import Components, components_of
from sdem_dist.fitting import plans
from sdem_dist.fitting.defaults import START_EM_EPOCHS
from sdem_dist.fitting.mixture_starts import ColumnsStart, component_classes, positions_of, surveyed
from sdem_dist.inputs.source import Source, documents_of, table_of
from sdem_dist.inputs.spec import Spec, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners.column_blocks import Kind
from sdem_dist.learners.multiplicative import Multiplicative
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.starts import rows_at, weights_at_examples, weights_of_features
from sdem_dist.models.mixture import PosteriorClasses, PosteriorMixture
from sdem_dist.models.nonnegative_rows import RowTransform, scale_of

NO_GAPS = "multiplicative updates have no place for missing values: impute them, or take EMMixtureClassifier"
NOT_NEGATIVE = "multiplicative updates take features that are not negative: shift them, or split each into two parts"


@p.estimator
class MultiplicativeMixtureClassifier(p.OfText, Components):
    """A classifier of which every class is a mixture of components, whose posterior p(y | x) is trained itself.

    Multiplicative updates cannot lower the conditional log-likelihood and have no step size. They take tables and
    sparse matrices that are not negative, without missing values. The model has no p(x).

    References
    ----------
    Saul, L. and Lee, D. (2001). Multiplicative Updates for Classification by Mixture Models. NIPS.

    Examples
    --------
    >>> from sdem_dist import MultiplicativeMixtureClassifier
    >>> X, y = [[1.0, 0.0], [2.0, 0.5], [0.0, 3.0], [0.5, 2.0], [1.0, 0.2], [0.2, 2.5]], [0, 0, 1, 1, 0, 1]
    >>> MultiplicativeMixtureClassifier(1).fit(X, y).predict([[2.0, 0.0], [0.0, 2.0]]).tolist()
    [0, 1]
    """

    n_epochs: int = p.param(200, p.integer(), "Updates, each a pass over the documents.")
    shared: bool = p.param(
        False, p.truth(), "All classes use all `n_components` components, each with its own weights."
    )
    init: str = p.param(
        "examples",
        p.one_of("examples", "em"),
        "Start at random examples with W = 1, or at the mixture that EM finds in 10 iterations.",
    )
    scaling: str | None = p.param(
        "rows",
        p.one_of("rows", None),
        '"rows": every row is divided by its sum, and all are scaled for a mean product of 2. It keeps eta small.',
    )
    expand: bool = p.param(False, p.truth(), "Expand a table quadratically.")
    schedule: str = p.param(
        "joint",
        p.one_of("joint", "alternate"),
        '"alternate": W and theta in turn, as the paper. "joint": both, with exponents 1 / 11 and 10 / (11 eta).',
    )
    accelerate: bool = p.param(
        True,
        p.truth(),
        "Exponents grow by a fifth per pass while the likelihood does not fall; on a fall the plain update is taken.",
    )
    dtype: str = p.param(
        "float64", p.one_of("float64", "float32"), "Of products and posteriors. float32 is twice as fast, for tables."
    )

    spec = Spec("dense", "labels", "class", either=True, positive=True, poor_score=True)

    def _check(self) -> None:
        if self.shared and not isinstance(self.n_components, int | np.integer):
            raise ValueError(f"shared components are one number, got n_components={self.n_components!r}")
        if self.init == "em" and self.shared:
            raise ValueError("init='em' fits components to classes: it needs shared=False")

    def _checked(self, X: np.ndarray) -> np.ndarray:
        for unfit, what, advice in (
            (np.isnan(X), "Input X contains NaN", NO_GAPS),
            (X < 0, f"Negative values in data passed to {type(self).__name__} (input X)", NOT_NEGATIVE),
        ):
            if unfit.any():
                raise ValueError(f"{what}: row {int(unfit.any(axis=1).argmax())} (from 0). {advice}")
        return X

    def _train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the survey of the documents, the start, and the updates."""
        sparse = self._layout == "sparse"
        if sparse and self.expand:
            raise ValueError("expand multiplies columns of tables, and X is sparse: pass it dense")
        if sparse and self.init == "em":
            raise ValueError("init='em' needs a table: pass X dense, or start at examples")
        if sparse and self.dtype != "float64":
            raise ValueError(
                f"dtype={self.dtype!r} is for tables, and X is sparse: leave it at 'float64', or pass X dense"
            )
        plan = plans.full_passes(source.n_documents, self.n_epochs, seed_of(self.random_state))
        once = replace(plan, n_epochs=1)
        classes = source.classes[:1] if self.shared else source.classes
        numbers = components_of(self.n_components, classes)
        component_class = () if self.shared else component_classes(numbers)
        survey = surveyed(trainer, source, once, max(numbers), labelled=not self.shared)
        if survey.n_missing or survey.lowest < 0:
            raise ValueError(NO_GAPS if survey.n_missing else NOT_NEGATIVE)
        scale = scale_of(survey.summed_rows / survey.n_documents) if self.scaling == "rows" else 0.0
        transform = RowTransform(scale, bool(self.expand))
        eta = scale or survey.largest_sum
        if self.expand:
            expanded = surveyed(trainer, source, once, 1, name="expanded rows", labelled=False, transform=transform)
            eta = expanded.largest_sum
        weights = weights_of_classes(self.class_weight, source)
        head = PosteriorClasses(len(source.classes))
        n_inputs = transform.n_features(source.n_features)
        model = PosteriorMixture(head, sum(numbers), n_inputs, component_class, transform, self.dtype)
        largest = (eta or 1.0) * (1.0 + 16.0 * float(np.finfo(self.dtype).eps))  # sums of rounded rows stay below it
        rule = Multiplicative(largest, self.schedule, bool(self.accelerate))
        learner = SdEM(model, source.weight, rule, "ncll", weights)
        if self.init == "em":
            rows = source.corpus.transformed(OfValues(RowTransform(scale).dense))
            mixture = ColumnsStart(
                numbers, weights, corpus=rows, kind=Kind("gaussian" if self.expand else "exponential")
            )
            em = mixture.learner(trainer, source, once)
            at_examples = mixture.at_examples(trainer, em, source, once)
            few = replace(once, n_epochs=START_EM_EPOCHS)
            state = trainer.run(Stage("EM", em, few, at_examples, corpus=rows)).state
            start = weights_of_features(em.model.variables, state.best_mu, state.best_counts + 1.0, component_class)
        else:
            examples = rows_at(source.corpus, positions_of(survey, numbers))
            start = weights_at_examples(examples, len(source.classes), component_class, transform)
        return final_stage(trainer, learner, plan, model.start(start))

    @property
    def log_weights_(self) -> np.ndarray:
        """Logarithm of W, shape (n_classes, n_components)."""
        check_is_fitted(self)
        return np.asarray(self._parameters.log_weights)

    @property
    def theta_(self) -> np.ndarray:
        """Natural parameters of the components, shape (n_components, n_parameters)."""
        check_is_fitted(self)
        return np.asarray(self._parameters.theta)

    @property
    def eta_(self) -> float:
        """Largest sum of a row of transformed features."""
        check_is_fitted(self)
        return float(self.learner_.rule.eta)

    @property
    def log_likelihood_path_(self) -> np.ndarray:
        """The highest conditional log-likelihood per document after each pass, shape (n_epochs,)."""
        check_is_fitted(self)
        return np.asarray(self.state_.path)

    def _class_scores(self, X: object) -> np.ndarray:
        model: PosteriorMixture = self.learner_.model
        if self._layout == "sparse":
            documents = model.transform.sparse(documents_of(self, X))
            return model.scores(self._parameters, documents) / self.temperature_
        # In C order as in training: sums along a row would round otherwise.
        rows = model.transform.dense(np.ascontiguousarray(table_of(self, X), model.dtype))
        return model.scores(self._parameters, rows) / self.temperature_
