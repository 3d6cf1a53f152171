"""What the naive Bayes classifiers of dense features share."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.tables import numbering
from sdem_dist.errors import CorpusError
from sdem_dist.estimators import feature_settings, inputs
from sdem_dist.estimators.classifier import SdemClassifier
from sdem_dist.estimators.fitting import FitOptions, fit_state, run_quietly
from sdem_dist.estimators.restoring import restorer
from sdem_dist.estimators.signatures import share_parameters
from sdem_dist.learners.columns import Columns, ColumnSummary
from sdem_dist.learners.feature_em import FeatureEm
from sdem_dist.learners.feature_sdem import FeatureSdem
from sdem_dist.losses import Nll
from sdem_dist.models.features import Block, FeatureModel

if TYPE_CHECKING:
    from typing import Self


_HELD_BACK = (
    "{}: training ended at the loss of the generative fit, since the prior outweighs the loss, as it may where rows are few, "
    "a class has next to no spread or a value lies far from all others. Give the prior less weight (prior=0 or alpha=0, or "
    "a smaller prior_scale), or leave out classes of one row and values far off; or take loss='nll', which is faster"
)


class FeatureNB(SdemClassifier):
    """Naive Bayes over dense features, trained by sdEM: the parameters that its subclasses take beside their own.

    Missing values (NaN) are summed out in training and prediction (Masegosa 2014, Table 2).

    Parameters
    ----------
    loss : {"ncll", "hinge", "nll"} or Loss, default="ncll"
        Or any object with the methods of `sdem_dist.losses.Loss`. "nll" is the generative fit, in one pass.
    class_prior : array-like of shape (n_classes,), default=None
        A fixed class prior.
    fit_prior : bool, default=True
        Learn the class prior; False takes a uniform one.
    n_epochs : int, default=60
        Passes over the documents after the generative fit.
    merge : {"sum", "mean"}, default="sum"
        "sum": one step a round, with the statistics of all lanes at one theta. "mean": each lane runs sdEM over its
        documents and the lanes' expectation parameters are averaged.
    n_lanes : int, default=None
        Lanes of a round. None: a function of the number of documents.
    batch_size : int, default=None
        Documents of a step: of a round for "sum" (None: all of them), inside a lane for "mean" (None: 32).
    step : {"safe", "paper"}, default="safe"
        "safe" starts at the generative fit, halves steps until they stay inside S and within a KL divergence of 1, and
        keeps only rounds of all documents that lower the objective: the training loss ends no higher than that of the
        generative fit. "paper" starts at the prior, and steps by ``1 / (1 + step_decay * t)`` a document.
    step_decay : float, default=1e-5
        lambda of the paper's steps, and of safe ones with fewer documents than all.
    prior_scale : float, default=1.0
        Multiplies the conjugate prior of the discriminative losses.
    class_weight : dict, "balanced" or None, default=None
    unlabelled : label, default=None
        The label, such as -1, of documents whose class is not known. They count through ``-ln p(x)``, the class hidden.
    unlabelled_weight : float, default=1.0
        Weight of each of them.
    evaluate_every : int, default=1
        Record the losses after every so many epochs; 0 never.
    patience : int, default=None
        With validation documents: stop after so many evaluations without a new minimum, and keep the minimum.
    n_jobs : int, default=None
        Threads, where no Dask client is given. No bit of the result depends on it.
    random_state : int, RandomState instance or None, default=0
    verbose : bool, default=False

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        Labelled training documents, by weight.
    class_log_prior_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    history_ : list of dict
        One entry an epoch, see `MultinomialNB`; ``perplexity`` is a value, not a word.
    n_iter_ : int
    """

    _sparse = False
    _restore = staticmethod(restorer(FeatureEm, FeatureSdem))

    def __init__(
        self,
        *,
        loss: Any = "ncll",
        class_prior: Any = None,
        fit_prior: bool = True,
        n_epochs: int = 60,
        merge: str = "sum",
        n_lanes: int | None = None,
        batch_size: int | None = None,
        step: str = "safe",
        step_decay: float = 1e-5,
        prior_scale: float = 1.0,
        class_weight: Any = None,
        unlabelled: Any = None,
        unlabelled_weight: float = 1.0,
        evaluate_every: int = 1,
        patience: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.class_prior = class_prior
        self.fit_prior = fit_prior
        self.n_epochs = n_epochs
        self.merge = merge
        self.n_lanes = n_lanes
        self.batch_size = batch_size
        self.step = step
        self.step_decay = step_decay
        self.prior_scale = prior_scale
        self.class_weight = class_weight
        self.unlabelled = unlabelled
        self.unlabelled_weight = unlabelled_weight
        self.evaluate_every = evaluate_every
        self.patience = patience
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give a subclass's ``**shared`` their names, for scikit-learn and for people."""
        super().__init_subclass__(**kwargs)
        share_parameters(cls, FeatureNB)

    @abstractmethod
    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        """Return the model's blocks, for the generative fit or for a discriminative run from there."""

    def _encoded(self, X: Any, *, reset: bool) -> Any:
        """Return `X` as numbers."""
        return X

    def _take_categories(self, categories: dict[int, np.ndarray], where: str) -> None:
        """Take over how a corpus numbers the categories of its columns."""
        if categories:
            raise CorpusError(
                f"{where} was written from a table with columns of text, categories or booleans: MixedNB takes such corpora, "
                f"{type(self).__name__} does not"
            )

    def _describe(self, source: inputs.Source) -> None:
        super()._describe(source)
        if isinstance(source.corpus, Corpus):
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            found = numbering(source.corpus.header.vectorizer)
            if found is not None and source.vocabulary is not None:
                self.feature_names_in_ = np.array(source.vocabulary, object)
            self._take_categories(found or {}, str(source.corpus.path))

    def _checked(self, X: np.ndarray) -> np.ndarray:
        """Return a table, or raise ValueError where it cannot be one of the model's."""
        return X

    def _train(self, source: inputs.Source, options: FitOptions) -> tuple[Any, Any, list[dict[str, float]]]:
        feature_settings.check(self)
        with threadpool_limits(1, user_api="blas"):  # the bits of inverses would depend on the number of its threads
            return self._stages(source, options)

    def _stages(self, source: inputs.Source, options: FitOptions) -> tuple[Any, Any, list[dict[str, float]]]:
        """Run the pass over the columns, the generative fit, and the discriminative run from there."""
        plan = feature_settings.plan(self, source.n_documents)
        once = feature_settings.one_round(plan)
        # The prior counts a document by its weight; scikit-learn's smoothing, which "nll" alone has, does not.
        weighted = self.loss != "nll" or self.unlabelled is not None
        summary = run_quietly(Columns(source.n_features, weighted), once, source, options.client, self.n_jobs)
        self.class_count_ = np.asarray(source.class_counts)
        learner = feature_settings.learner(self, source, plan, FeatureModel(self._blocks(summary, True)), None)
        if self.loss == "nll" and not summary.n_unlabelled:
            return learner, *fit_state(self, learner, once, source, options)
        initial = None
        if self.step == "safe":
            initial = learner.inside(run_quietly(learner, once, source, options.client, self.n_jobs))
        model = FeatureModel(self._blocks(summary, False))
        learner = feature_settings.learner(self, source, plan, model, feature_settings.loss_of(self))
        state, history = fit_state(self, learner, plan, source, options, initial)
        if learner.held_back(state):
            warnings.warn(_HELD_BACK.format(type(self).__name__), stacklevel=4)
        return learner, state, history

    @property
    def class_log_prior_(self) -> np.ndarray:
        """Ln p(class), shape (n_classes,)."""
        check_is_fitted(self)
        return np.asarray(self._parameters.log_prior)

    def _joint_log_proba(self, X: Any) -> np.ndarray:
        model = self._learner.model.variables
        return np.asarray(model.scores(self._parameters, model.features(inputs.prediction_documents(self, X))))

    def score_samples(self, X: Any) -> np.ndarray:
        """Return ln p(x) of each row, shape (n_samples,): of its values that are not missing."""
        from sdem_dist.losses import marginal_log_likelihood

        check_is_fitted(self)
        return marginal_log_likelihood(self._joint_log_proba(X))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows and their classes from p(x, y).

        Parameters
        ----------
        n_samples : int, default=1
            0 or more.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), float64
        y : ndarray of shape (n_samples,)
        """
        from sdem_dist.estimators.settings import seed_of

        check_is_fitted(self)
        if not isinstance(n_samples, int | np.integer) or n_samples < 0:
            raise ValueError(f"n_samples must be an integer that is not negative, got {n_samples!r}")
        rng = np.random.default_rng(seed_of(random_state))
        prior = np.exp(self._parameters.log_prior)
        drawn = rng.choice(len(prior), n_samples, p=prior / prior.sum())
        return self._learner.model.variables.sample(self._parameters, drawn, rng), self.classes_[drawn]

    def with_class_prior(self, class_prior: Any) -> Self:
        """Return a copy of the fitted model for a population with other shares of the classes.

        For the generative fit this replaces p(y). For the other losses scores gain ``ln new - ln old`` share, old being
        that of the training documents, class weights included: what training has made of p(y) beyond the shares stays.

        Raises
        ------
        ValueError
            A class without training documents is to have a share: nothing is known of it.
        """
        from scipy.special import logsumexp

        from sdem_dist.estimators.settings import log_shares

        check_is_fitted(self)
        shares = np.asarray(log_shares(class_prior, len(self.classes_)))
        old = self.class_count_ * (
            1.0 if self._learner.class_weight is None else np.asarray(self._learner.class_weight)
        )
        if ((old == 0) & np.isfinite(shares)).any():
            raise ValueError(f"no training document has the class {self.classes_[old == 0][0]}: its share must be 0")
        log_prior = shares
        if self.loss not in ("nll", Nll()):
            known = np.flatnonzero(old)
            log_prior = np.full(len(old), -np.inf)
            trained = self._lazy_parameters.trained.value.log_prior
            log_prior[known] = trained[known] + shares[known] - np.log(old[known])
        new = copy.copy(self)
        new._lazy_parameters = self._lazy_parameters.with_prior(log_prior - logsumexp(log_prior))
        return new

    def _extra(self) -> dict[str, Any]:
        """Return what a model file holds beside arrays and settings."""
        categories = {str(i): c.tolist() for i, c in getattr(self, "categories_", {}).items()}
        moved = self._lazy_parameters.trained is not self._lazy_parameters
        prior = {"log_prior": self._parameters.log_prior.tolist()} if moved else {}
        return {"class_count": self.class_count_.tolist(), "categories": categories, **prior}

    def _take_extra(self, extra: Any) -> None:
        """Take back what `_extra` returned."""
        items = dict(extra)
        self.class_count_ = np.array(items["class_count"], np.float64)
        if len(self.class_count_) != len(self.classes_):
            raise ValueError("the counts of the classes do not match the classes")
        self.categories_ = {int(i): np.array(c) for i, c in items["categories"]}
        if "log_prior" in items:  # of `with_class_prior`
            log_prior = np.array(items["log_prior"], np.float64)
            if log_prior.shape != self.class_count_.shape or np.isnan(log_prior).any():
                raise ValueError("the class prior does not match the classes")
            self._lazy_parameters = self._lazy_parameters.with_prior(log_prior)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
