"""Models of tables: naive Bayes whose columns are normal, values 0 and 1, categories or counts, and regression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.labels import as_pandas, encoded_table, is_table, numbering
from sdem_dist.counted import nearest
from sdem_dist.engine.plan import Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.errors import CorpusError
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.incremental import Incremental
from sdem_dist.estimators.predictions import JointClassifier, WithDensity
from sdem_dist.families import Categorical, Family, GaussianFull
from sdem_dist.fitting import defaults, plans
from sdem_dist.fitting.running import Client, over_corpus
from sdem_dist.inputs.source import Source, table_of
from sdem_dist.inputs.spec import Extra, Spec, Trained, final_stage
from sdem_dist.inputs.validation import seed_of, some
from sdem_dist.learners import surveys, variables
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.safe_step import PaperStep, SafeStep
from sdem_dist.learners.sdem import SdEM
from sdem_dist.losses import Loss, Ncll, named
from sdem_dist.models import heads, regression
from sdem_dist.models.feature_classes import FeatureClasses, started
from sdem_dist.models.features import Block, FeatureModel
from sdem_dist.models.naive_bayes import pseudo_count
from sdem_dist.reports.explaining import number_explanations


class TableEstimator(EngineEstimator):
    """Base of estimators over tables whose columns have families: one family for all, or with "mixed" one for each."""

    _kind: ClassVar[Any] = "gaussian"
    _means = p.fitted(lambda m: m.learner_.model.variables.means(m.state_.best[1]), "")
    _layout = p.fitted(lambda m: "sparse" if m._kind == "multinomial" else "dense", "", "str")

    def _blocks(self, summary: surveys.ColumnSummary, **others: Any) -> tuple[Block, ...]:
        names = "alpha", "prior", "var_smoothing", "binarize", "min_categories", "covariance_type"
        params = {name: getattr(self, name) for name in names if hasattr(self, name)}
        params["standardised"] = getattr(self, "step", "") != "paper"  # the paper's prior is for unscaled columns
        return variables.blocks_of_columns(summary, self._kinds_of(len(summary.n)), **(params | others))

    def _checked(self, X: np.ndarray) -> np.ndarray:
        for kind, columns in self._kinds_of(X.shape[1]).items():
            name, values = type(self).__name__, X[:, columns]
            if kind == "categorical":
                variables.refuse_other_than_categories(name, values)
            elif kind == "poisson":
                variables.refuse(values, values < 0, "Negative values", name, "counts must be nonnegative")
        return X

    def _describe(self, source: Source) -> None:
        super()._describe(source)
        if isinstance(source.corpus, Corpus):
            categories = numbering(source.corpus.header.vectorizer)
            if categories and self._kind != "mixed":
                problem = f"{source.name} was written from a table with columns of text, categories or booleans"
                raise CorpusError(f"{problem}: use MixedNB, or a mixture with components='mixed'")
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            if categories is not None and source.vocabulary is not None:
                self.feature_names_in_ = np.array(source.vocabulary, object)
            self.categories_ = categories or {}

    def _encoded(self, X: Any, *, reset: bool) -> Any:
        """Return a pandas table with its categories as numbers."""
        if reset:
            self.categories_ = {}
        if self._kind != "mixed" or not is_table(X := as_pandas(X)):
            return X
        import pandas as pd  # type: ignore[import-untyped]

        if not reset or X.columns.is_unique:
            validate_data(self, X, reset=reset, skip_check_array=True)  # names and number of columns
        table = encoded_table(X, None if reset else self.categories_)
        self.categories_ = table.categories
        return pd.DataFrame(table.values, index=X.index, columns=X.columns)

    def _check_columns(self, source: Source) -> None:
        super()._check_columns(source)
        if isinstance(source.corpus, Corpus):
            theirs = numbering(source.corpus.header.vectorizer) or {}
            ours = getattr(self, "categories_", {})
            if {i: c.tolist() for i, c in theirs.items()} != {i: c.tolist() for i, c in ours.items()}:
                advice = "write it with write_corpus(..., vectorizer=training_corpus.header.vectorizer)"
                raise CorpusError(f"{source.name} encodes its categories differently from the model: {advice}")

    def _kinds_of(self, n_columns: int) -> dict[str | Family, list[int]]:
        if self._kind != "mixed":
            return {self._kind: list(range(n_columns))}
        names = {name: i for i, name in enumerate(getattr(self, "feature_names_in_", []))}
        texts: dict[Any, np.ndarray] = getattr(self, "categories_", {})
        kinds, all_named = dict[str | Family, list[int]](), list[int]()
        for key, kind in (getattr(self, "kinds", None) or {}).items():
            named_kinds = ("gaussian", "bernoulli", "categorical", "poisson", "exponential")
            if not isinstance(kind, Family) and kind not in named_kinds:
                raise ValueError(f"kinds: unknown {kind!r}. {nearest(str(kind), named_kinds)}Known: {named_kinds}")
            columns: list[Any] = [names.get(c, c) for c in (key if isinstance(key, tuple) else (key,))]
            if isinstance(kind, Family) and kind.width != len(columns):
                raise ValueError(f"kinds: {kind} needs {kind.width} columns, got {columns}")
            for c in columns:
                if not isinstance(c, int | np.integer) or not 0 <= c < n_columns:
                    raise ValueError(f"kinds: X has no column {c!r}")
                codes = c in texts and texts[c].dtype != bool  # codes in alphabetical order
                if codes and kind != "categorical" and not isinstance(kind, Categorical):
                    name = getattr(self, "feature_names_in_", range(n_columns))[c]
                    problem = f"kinds: column {name!r} has categories ({some(texts[c])}), but {kind!r} needs numbers"
                    raise ValueError(f"{problem}: drop it, or convert it to numbers or booleans")
            kinds.setdefault(kind, []).extend(map(int, columns))
            all_named += columns
        if len(set(all_named)) < len(all_named):
            raise ValueError("kinds contains a column twice")
        for c in sorted(set(range(n_columns)).difference(all_named)):
            kinds.setdefault("categorical" if c in texts else "gaussian", []).append(c)
        return kinds

    def extra(self) -> dict[str, object]:
        categories = {str(i): c.tolist() for i, c in getattr(self, "categories_", {}).items()}
        return {**super().extra(), "categories": categories}

    def take_extra(self, extra: Extra) -> None:
        super().take_extra(extra)
        self.categories_ = {int(i): np.array(c) for i, c in extra["categories"].items()}


class FeatureNB(TableEstimator, WithDensity, JointClassifier, Incremental):
    """Naive Bayes over dense features, trained by sdEM.

    Missing values (NaN) are marginalized in training and prediction (Masegosa 2014, Table 2).

    loss -- Loss to minimize: a name, or an object like `sdem_dist.losses.Loss`. "nll": the generative fit, in one pass.
    n_epochs -- Number of passes over the documents after the generative fit.
    merge -- "sum": one step per round, with the statistics of all lanes. "mean": lanes run sdEM, and mu is averaged.
    batch_size : int | None -- Documents per step, in a round ("sum"; None: all) or in a lane ("mean"; None: 32).
    step -- "safe": start at the generative fit, halve steps until mu is valid and the KL divergence at most 1, and
        accept only rounds that lower the objective. "paper": steps of ``1 / (1 + step_decay * t)`` from the prior.
    step_decay -- lambda: rate at which the paper's steps, and safe steps with batches, decrease.
    class_count_ : ndarray of shape (n_classes,) -- Total weight of the labelled documents of each class.

    >>> from sdem_dist import FeatureNB
    >>> clf = FeatureNB(loss="nll").fit([[0, 3], [0, 2], [1, 0], [2, 0]], ["low", "low", "high", "high"])
    >>> clf.predict([[0, 2], [2, 0]]).tolist()
    ['low', 'high']
    """

    loss: Literal["ncll", "hinge", "nll"] | Loss = "ncll"
    n_epochs: int = 60
    merge: Literal["sum", "mean"] = "sum"
    n_lanes: int | None = None
    batch_size: int | None = None
    step: Literal["safe", "paper"] = "safe"
    step_decay: float = 1e-5
    class_prior: object = None
    fit_prior: bool = True
    class_weight: object = None
    unlabelled: object = None
    unlabelled_weight: float = 1.0

    spec = Spec("dense", "labels", "class", unlabelled=True)
    _unused_by_nll = "n_epochs", "step_decay", "merge"
    _saved: ClassVar = {"class_count": "classes_"}

    def _check(self) -> None:
        if self.step == "paper" and self.merge == "sum":
            raise ValueError("step='paper' makes a step per document: use merge='mean' (n_lanes=1 as in the paper)")
        if self.loss == "nll" and self.unlabelled is None and (self.step == "paper" or self.batch_size is not None):
            raise ValueError("loss='nll' takes no steps: set step='safe' and batch_size=None, or use losses.Nll()")

    def _describe(self, source: Source) -> None:
        super()._describe(source)
        self.class_count_ = np.asarray(source.class_counts)

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the pass over the columns, the generative fit, and discriminative training."""
        n, n_classes, seed = source.n_documents, len(source.classes), seed_of(self.random_state)
        once = Plan(n, 1, 1, plans.lanes_of(n, defaults.SUM_LANE_ROWS), seed)
        # The prior counts documents by weight; scikit-learn's smoothing, used by "nll" alone, does not.
        columns = surveys.Columns(source.n_features, weighted=self.loss != "nll" or self.unlabelled is not None)
        summary = trainer.run(Stage("columns", columns, once)).state
        weights, share = plans.weights_of_classes(self, source), float(self.unlabelled_weight)
        log_prior = plans.fixed_log_prior(self, n_classes)
        model = FeatureClasses(FeatureModel(self._blocks(summary, prior=0.0)), heads.Classes(n_classes), log_prior)
        rule: Any = ClosedForm(complete=True)
        generative = SdEM(model, source.weight, rule, class_weight=weights, unlabelled_weight=share)
        if self.loss == "nll" and not summary.n_unlabelled:
            return final_stage(trainer, generative, once)
        initial = None
        if self.step == "safe":
            initial = model.inside(trainer.run(Stage("generative fit", generative, once)).state)
        # Rounds are whole epochs unless ``merge="sum"`` has a `batch_size`.
        plan = Plan(n, self.n_epochs, 1, self.n_lanes or plans.lanes_of(n, defaults.MEAN_LANE_ROWS), seed)
        if self.merge == "sum":
            plan = plans.batches(n, self.n_epochs, seed, self.batch_size or n, self.n_lanes, defaults.SUM_LANE_ROWS)
        batch = self.batch_size or (1 if self.step == "paper" else defaults.MEAN_BATCH)
        common = self.merge == "mean", batch, float(self.step_decay)
        rule = PaperStep(*common) if self.step == "paper" else SafeStep(*common, judged=plan.n_rounds == 1)
        model = replace(model, variables=FeatureModel(self._blocks(summary)))
        learner = SdEM(model, source.weight, rule, named(self.loss), weights, share, seed=seed)
        end = final_stage(trainer, learner, plan, initial)
        if isinstance(rule, SafeStep) and rule.held_back(learner, end.state):
            problem = "training did not improve on the generative fit, since the prior outweighs the loss"
            reasons = "there are few rows, a class has hardly any variance, or there is an outlier"
            advice = "Reduce the prior (prior=0 or alpha=0), remove outliers, or use loss='nll'"
            return end._replace(warnings=(f"{type(self).__name__}: {problem}. Perhaps {reasons}. {advice}",))
        return end

    def _log_densities(self, row: object) -> np.ndarray:
        """Return ln p(value | class) of a value of each column, shape (n_features, n_classes)."""
        values = np.broadcast_to(np.asarray(row, np.float64), self.n_features_in_)
        return np.asarray(self.learner_.model.variables.log_densities(self._parameters, values))

    def _counts_of(self, p: np.ndarray, n_values: int) -> np.ndarray:
        """Return the counts of loss 'nll' whose shares are `p`, shape (n_classes, n), of `n_values` in a column."""
        alpha = pseudo_count(self._trained_params["alpha"], 0)
        return np.maximum(np.round(p * (self._counted.class_counts[:, None] + alpha * n_values) - alpha, 12), 0.0)


class GaussianNB(FeatureNB):
    """Gaussian naive Bayes: every column is normally distributed in every class, with its own mean and variance.

    With ``loss="nll"``, it equals scikit-learn's ``GaussianNB``.

    priors : array-like of shape (n_classes,) -- A fixed class prior, like `class_prior` in other estimators.
    """

    var_smoothing: float = 1e-9
    prior: float = 1.0
    priors: object = None
    class_prior: ClassVar[Any] = None  # type: ignore[misc]
    fit_prior: ClassVar[Any] = True  # type: ignore[misc]

    class_prior_ = p.fitted(lambda model: np.exp(model.class_log_prior_), "Probability of each class.")
    theta_ = p.fitted("_means", "Mean of each class and column, shape (n_classes, n_features).")
    var_ = p.fitted(lambda m: m.learner_.model.variables.covariances(m.state_.best[1]), "Variances, like `theta_`.")


class BernoulliNB(FeatureNB):
    """Bernoulli naive Bayes: every column is 0 or 1, with its own probability in every class.

    With ``loss="nll"``, it equals scikit-learn's ``BernoulliNB``.

    alpha -- Pseudo-count of each of the two values.
    binarize : float in (-inf, inf) | None -- Values above this become 1, others 0. None: values must be 0 or 1.
    """

    alpha: float = 1.0
    binarize: float | None = 0.0

    spec = replace(FeatureNB.spec, poor_score=True)  # thresholds discard much of a continuous feature
    _kind = "bernoulli"

    feature_log_prob_ = p.fitted(
        lambda model: model._log_densities(1.0 if model.binarize is None else float(model.binarize) + 1.0).T,
        "Logarithm of p(value 1 | class), shape (n_classes, n_features).",
    )

    @property
    def feature_count_(self) -> np.ndarray:
        """Number of documents per class with the value 1, for loss 'nll'. A missing value adds p(value 1 | class)."""
        return self._counts_of(np.exp(self.feature_log_prob_), 2)


class CategoricalNB(FeatureNB):
    """Categorical naive Bayes: every column contains categories, numbered from 0.

    With ``loss="nll"``, it equals scikit-learn's ``CategoricalNB``.

    alpha -- Pseudo-count of each category.
    min_categories : int or array-like of shape (n_features,) -- Minimum number of categories. None: no minimum.
    """

    alpha: float = 1.0
    min_categories: object = None

    _kind = "categorical"

    @property
    def n_categories_(self) -> np.ndarray:
        """Number of categories of each column, shape (n_features,), int64."""
        sizes = np.zeros(self.n_features_in_, np.int64)
        for block in self.learner_.model.variables.blocks:
            sizes[list(block.columns)] = block.family.n_categories
        return sizes

    @property
    def feature_log_prob_(self) -> list[np.ndarray]:
        """Logarithm of p(category | class) of each column, shapes (n_classes, n_categories)."""
        sizes = self.n_categories_
        of_categories = np.stack([self._log_densities(np.minimum(c, sizes - 1)) for c in range(sizes.max())], axis=2)
        return [of_categories[column, :, :n] for column, n in enumerate(sizes)]

    @property
    def category_count_(self) -> list[np.ndarray]:
        """Documents per class and category, for 'nll'; a missing value adds p(category | class)."""
        return [self._counts_of(np.exp(log_p), log_p.shape[1]) for log_p in self.feature_log_prob_]


class PoissonNB(FeatureNB):
    """Poisson naive Bayes: every column is a count, with its own mean in every class.

    alpha -- Weight of the conjugate Gamma prior of each class, as a number of observations with count 1.
    """

    alpha: float = 1.0

    _kind = "poisson"


class MixedNB(FeatureNB):
    """Naive Bayes with a distribution for each column; accepts pandas, polars and Arrow tables.

    categories_ : dict of int to ndarray -- Categories of the columns that are not numeric, in the order of the codes
        that `sample` returns. In prediction, unknown categories are treated as missing values.
    kinds : mapping | None -- Maps a column (name or position), or a tuple of columns that form one variable, to
        "gaussian", "bernoulli", "categorical", "poisson", "exponential" or a `Family`. By default, strings, categories
        and booleans are "categorical", others "gaussian". In a row, all or none of a tuple's values are missing.
    alpha -- Pseudo-count of each category or value, as in `CategoricalNB`.
    """

    kinds: Mapping[Any, str | Family] | None = None
    alpha: float = 1.0
    var_smoothing: float = 1e-9
    prior: float = 1.0

    _kind = "mixed"


class GaussianRegressor(RegressorMixin, Incremental):
    """Linear regression as the conditional mean of a joint Gaussian, with support for missing features (NaN).

    In memory, the target is `y`; in a dense corpus, it is the last column, without missing values. Missing features are
    marginalized in training, too.

    loss -- "nll": ``-ln p(y, x)``. "ncll": ``-ln p(y | x)``. Both are ridge regression if no features are missing.
        Otherwise, both run EM, and "ncll" then minimizes the conditional loss by natural-gradient steps.
    alpha -- Weight of the prior (independent, standardized columns), as a number of observations: the penalty of ridge
        regression. "evidence" maximizes the probability of the targets (empirical Bayes), with features scaled
        separately or jointly. This requires one more pass, or 10 if features are missing.
    n_epochs -- If features are missing: number of passes of EM and, with "ncll", of natural-gradient steps after EM.
    history_ : list of dict -- Epochs of the last stage; ``nll`` and ``ncll`` are row means, for standardized data.

    >>> import numpy as np
    >>> from sdem_dist import GaussianRegressor
    >>> model = GaussianRegressor().fit([[1, 2], [2, 1], [3, 4], [4, 3], [5, 6]], [3, 3, 7, 7, 11])
    >>> model.predict([[6.0, 5.0], [6.0, np.nan]]).round().tolist()
    [11.0, 12.0]
    """

    loss: Literal["nll", "ncll"] = "nll"
    alpha: Literal["evidence"] | float = "evidence"
    n_epochs: int = 30
    n_lanes: int | None = None

    spec = Spec("dense", "numbers", "number", shown=("nll", "ncll"))
    _monitor = p.fitted("loss", "", "str")
    explain = number_explanations

    def _check_columns(self, source: Source) -> None:
        """Accept a corpus with a column for the target, as in training, or without one."""
        theirs, ours = source.vocabulary, self.vocabulary_
        names_differ = theirs is not None and ours is not None and theirs != ours[:-1]
        if source.n_features == self._n_columns:
            super()._check_columns(source)
        elif source.n_features != self.n_features_in_ or names_differ:
            problem = f"{source.name} has {source.n_features} columns, but the model needs {self.n_features_in_}"
            raise CorpusError(f"{problem}, or {self._n_columns} with the target as the last column")

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run EM for the joint loss, then steps for the conditional loss."""
        n, d, seed = source.n_documents, source.n_features, seed_of(self.random_state)
        once = Plan(n, 1, 1, self.n_lanes or plans.lanes_of(n, defaults.SUM_LANE_ROWS), seed)
        summary = trainer.run(Stage("columns", surveys.Columns(d, weighted=True), once)).state
        gaps = bool((summary.n < source.weight * (1 - 1e-12)).any())
        variables.refuse_beyond_squares(summary, np.arange(d), target=d - 1)

        def em(scale: np.ndarray, alpha: float) -> SdEM[regression.JointGaussian]:
            # The covariance of dependent columns is singular: a small prior makes it regular.
            family = GaussianFull(d, max(alpha, defaults.LEAST_PRIOR_SHARE * source.weight))
            block = Block(family, tuple(range(d)), tuple(summary.mean.tolist()), tuple(scale.tolist()))
            return SdEM(regression.JointGaussian(FeatureModel((block,))), source.weight, ClosedForm(complete=not gaps))

        alpha, scale = self.alpha, summary.scale
        if isinstance(alpha, str):  # maximizes the evidence of the targets, with one alpha per feature or one for all
            pilot = em(scale, 1.0 if gaps else 0.0)
            few = replace(once, n_epochs=min(self.n_epochs, defaults.PILOT_EM_EPOCHS)) if gaps else once
            mu = trainer.run(Stage("prior", pilot, few)).state.mu[0]
            products = pilot.model.products(mu, source.weight)
            alpha, scale = regression.best_prior(products, scale, summary.variance, source.weight)
        joint, plan = em(scale, float(alpha)), replace(once, n_epochs=self.n_epochs)
        if self.loss == "nll" or not gaps:  # without gaps, the joint and the conditional loss have the same minimum
            return final_stage(trainer, joint, plan if gaps else once)
        state = trainer.run(Stage("EM", joint, plan)).state
        learner = SdEM(joint.model, source.weight, SafeStep(), Ncll())
        return final_stage(trainer, learner, plan, started(np.array([source.weight]), state.mu, state.t))

    _moments = p.fitted(lambda model: model.learner_.model.moments(model.state_), "Mean of features and target.")
    coef_ = p.fitted(lambda m: regression.coefficients(m._moments[1]), "Coefficients, shape (n_features,).")
    intercept_ = p.fitted(lambda m: m._moments[0] @ np.append(-m.coef_, 1), "Prediction if features are 0.", "float")
    variance_ = p.fitted(lambda m: m._moments[1][-1] @ np.append(-m.coef_, 1), "Residual variance.", "float")
    alpha_ = p.fitted("learner_.model.family.alpha", "Weight of the prior, as a number of observations.", "float")

    def predict(self, X: object, return_std: bool = False, client: Client | None = None) -> Any:
        """Return the mean of the target given the known features, shape (n_samples,).

        X : array-like of shape (n_samples, n_features), or Corpus -- NaN for unknown features. A corpus may contain the
            target as its last column, which is ignored.
        return_std : bool, default=False -- Also return the predictive standard deviations. They increase with the
            number of missing features and of columns, and with the distance from the training rows.
        Returns : ndarray of shape (n_samples,), float64 -- With `return_std`, a tuple of means and standard deviations.
        """
        model, n = self.learner_.model, self.learner_.n_documents
        means, deviations = over_corpus(self, X, lambda b: model.predicted(self.state_, table_of(self, b), n), client).T
        return (means, deviations) if return_std else means
