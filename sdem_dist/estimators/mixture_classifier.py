"""Classification by mixtures: a few components for every class, trained discriminatively or by EM."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.layout import SPARSE
from sdem_dist.estimators import inputs, mixture_settings
from sdem_dist.estimators.classifier import SdemClassifier
from sdem_dist.estimators.fitting import FitOptions
from sdem_dist.estimators.mixture_training import NO_GAPS, NOT_NEGATIVE, Trained, multiplicative, of_counts, of_features
from sdem_dist.estimators.restoring import restorer
from sdem_dist.learners.em import WordEm
from sdem_dist.learners.feature_em import FeatureEm
from sdem_dist.learners.feature_sdem import FeatureSdem
from sdem_dist.learners.multiplicative import Multiplicative
from sdem_dist.learners.sdem import Sdem
from sdem_dist.losses import marginal_log_likelihood
from sdem_dist.models.components import by_class
from sdem_dist.models.naive_bayes import joint_scores


def _has_density(estimator: MixtureClassifier) -> bool:
    """Say whether there is a p(x), or raise AttributeError."""
    if estimator.training == "multiplicative":
        raise AttributeError("training='multiplicative' fits the posterior only: for p(x) take training='em' or 'sdem'")
    return True


class MixtureClassifier(SdemClassifier):
    """A classifier of which every class is a mixture of components.

    ``training="multiplicative"`` fits the posterior itself, by multiplicative updates that cannot lower the conditional
    log-likelihood and have no step size. It takes tables and sparse matrices that are not negative, without missing
    values, and the model has no p(x). ``training="em"`` fits the joint distribution, and ``training="sdem"`` goes on from
    there with a discriminative loss, the component as hidden variable.

    Parameters
    ----------
    n_components : int, sequence of int or dict of class to int, default=4
        Components of each class; of all classes together where they are `shared`.
    training : {"multiplicative", "em", "sdem"}, default="multiplicative"
    components : {"gaussian", "exponential", "multinomial"}, default="gaussian"
        For "em" and "sdem": what components are. Gaussians have diagonal covariances; multinomials take counts. Missing
        values (NaN) of the first two are summed out.
    n_epochs : int, default=None
        Passes over the documents. None: 200 multiplicative updates, 64 iterations of EM, 60 epochs of "sdem" (15 of
        multinomials).
    shared : bool, default=False
        All classes use all components, each with its own weights ("multiplicative").
    init : {"examples", "em"}, default="examples"
        Start at random examples with W = 1, or at the mixture of exponentials (with `expand`: of Gaussians) that EM
        finds in 10 iterations ("multiplicative").
    scaling : {"rows", None}, default="rows"
        "rows" divides every row by its sum and multiplies all by the number that makes the mean product of two rows 2: eta,
        which slows the updates, is then no more than the mean sum ("multiplicative").
    expand : bool, default=False
        Expand a table quadratically ("multiplicative").
    schedule : {"joint", "alternate"}, default="joint"
        "alternate": W and theta in turn, a pass each, as in the paper. "joint": both in every pass, with exponents 1 / 11 and
        10 / (11 eta), for which the guarantee holds too ("multiplicative").
    accelerate : bool, default=True
        Over-relaxation: exponents grow by a fifth a pass while the likelihood does not fall. On a fall the pass counts for
        nothing, and the plain update of the best point is taken ("multiplicative").
    dtype : {"float64", "float32"}, default="float64"
        Of products and posteriors. float32 is about twice as fast and bounds a fall by its own, coarser rounding; it is for
        tables ("multiplicative").
    loss : {"ncll", "hinge", "nll"}, default="ncll"
        For "sdem".
    n_em_epochs : int, default=10
        Iterations of EM before "sdem".
    assignment : {"soft", "hard"}, default="soft"
        "hard" EM gives a document wholly to its most probable component.
    em_step : float, default=1.0
        Under 1 generalised EM: how far each iteration goes towards the maximum of its bound.
    prior : float, default=1.0
        Observations with the column's mean (and variance) that the conjugate prior adds to every Gaussian or exponential
        component.
    offset : float, default=0.0
        Added to every value for exponential components, in means of all values: exact zeros have an unbounded likelihood.
    alpha : float, default=1.0
        Pseudo-count of each word in multinomial components.
    absence : float or "auto", default="auto"
        As in `MultinomialNB`, for "sdem" of multinomials.
    class_weight : dict, "balanced" or None, default=None
    evaluate_every : int, default=50
        Record the losses after every so many epochs and after the last; 0 never. It costs another pass.
    patience : int, default=None
        With validation documents: stop after so many evaluations without a new minimum, and keep the minimum.
    n_jobs : int, default=None
        Threads, where no Dask client is given. No bit of the result depends on it.
    random_state : int, RandomState instance or None, default=0
        Seed of the examples that components start at, and of the order of documents.
    verbose : bool, default=False

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    log_weights_ : ndarray of shape (n_classes, n_components)
        ln W, or ln p(z, y): -inf where a component is not the class's.
    theta_ : ndarray
        Natural parameters of the components, shape (n_components, n_parameters); of multinomials ln p(word | component).
    eta_ : float
        Largest sum of a row of transformed features ("multiplicative").
    log_likelihood_path_ : ndarray of shape (n_epochs,)
        The highest conditional log-likelihood a document after each pass ("multiplicative").
    n_features_in_ : int
    history_ : list of dict
        One entry an epoch, see `MultinomialNB`; of multiplicative updates accuracy, ncll and hinge.
    n_iter_ : int

    References
    ----------
    Saul, L. and Lee, D. (2001). Multiplicative Updates for Classification by Mixture Models. NIPS.
    Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 2.
    """

    _sparse = False
    _restore = staticmethod(restorer(WordEm, Sdem, FeatureEm, FeatureSdem, Multiplicative))

    def __init__(
        self,
        n_components: Any = 4,
        *,
        training: str = "multiplicative",
        components: str = "gaussian",
        n_epochs: int | None = None,
        shared: bool = False,
        init: str = "examples",
        scaling: str | None = "rows",
        expand: bool = False,
        schedule: str = "joint",
        accelerate: bool = True,
        dtype: str = "float64",
        loss: str = "ncll",
        n_em_epochs: int = 10,
        assignment: str = "soft",
        em_step: float = 1.0,
        prior: float = 1.0,
        offset: float = 0.0,
        alpha: float = 1.0,
        absence: float | str = "auto",
        class_weight: Any = None,
        evaluate_every: int = 50,
        patience: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.training = training
        self.components = components
        self.n_epochs = n_epochs
        self.shared = shared
        self.init = init
        self.scaling = scaling
        self.expand = expand
        self.schedule = schedule
        self.accelerate = accelerate
        self.dtype = dtype
        self.loss = loss
        self.n_em_epochs = n_em_epochs
        self.assignment = assignment
        self.em_step = em_step
        self.prior = prior
        self.offset = offset
        self.alpha = alpha
        self.absence = absence
        self.class_weight = class_weight
        self.evaluate_every = evaluate_every
        self.patience = patience
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _monitor(self) -> str:
        return "nll" if self.training == "em" else super()._monitor

    def _training_source(self, X: Any, y: Any, sample_weight: Any, client: Any) -> inputs.Source:
        mixture_settings.check(self)
        if self.training == "multiplicative":
            rows = getattr(X, "_meta", X)  # a dask array says by that what its blocks are
            self._sparse = X.header.layout == SPARSE if isinstance(X, Corpus) else sp.issparse(rows)
            if self._sparse and self.expand:
                raise ValueError("expand multiplies columns of tables, and X is sparse: pass it dense")
            if self._sparse and self.dtype != "float64":
                raise ValueError(
                    f"dtype={self.dtype!r} is for tables, and X is sparse: leave it at 'float64', or pass X dense"
                )
        else:
            self._sparse = self.components == "multinomial"
        return super()._training_source(X, y, sample_weight, client)

    def _encoded(self, X: Any, *, reset: bool) -> Any:
        return X

    def _checked(self, X: np.ndarray) -> np.ndarray:
        if self.training != "multiplicative":
            return X
        if np.isnan(X).any():
            raise ValueError(f"Input X contains NaN: row {int(np.isnan(X).any(axis=1).argmax())} (from 0). {NO_GAPS}")
        if (X < 0).any():
            raise ValueError(
                f"Negative values in data passed to MixtureClassifier (input X): row {int((X < 0).any(axis=1).argmax())} "
                f"(from 0). {NOT_NEGATIVE}"
            )
        return X

    def _train(self, source: inputs.Source, options: FitOptions) -> Trained:
        if self.training == "multiplicative":
            return multiplicative(self, source, options)
        return of_counts(self, source, options) if self._is_of_counts else of_features(self, source, options)

    @property
    def log_weights_(self) -> np.ndarray:
        """Ln W, or ln p(z, y), shape (n_classes, n_components)."""
        check_is_fitted(self)
        if self.training == "multiplicative":
            return np.asarray(self._parameters.log_weights)
        owners = np.asarray(self._learner.model.owners)
        found = np.full((len(self.classes_), len(owners)), -np.inf)
        found[owners, np.arange(len(owners))] = self._parameters.log_prior
        return found

    @property
    def theta_(self) -> np.ndarray:
        """Natural parameters of the components, shape (n_components, n_parameters)."""
        check_is_fitted(self)
        if self._is_of_counts:
            return np.asarray((self._parameters.log_words - self._parameters.log_totals).T)
        return np.asarray(self._parameters.theta)

    @property
    def _is_of_counts(self) -> bool:
        return self.training != "multiplicative" and self.components == "multinomial"

    @property
    def eta_(self) -> float:
        """Largest sum of a row of transformed features."""
        self._only_multiplicative("eta_")
        return float(self._learner.eta)

    @property
    def log_likelihood_path_(self) -> np.ndarray:
        """The highest conditional log-likelihood a document after each pass, shape (n_epochs,)."""
        self._only_multiplicative("log_likelihood_path_")
        return np.asarray(self._state.path)

    def _only_multiplicative(self, name: str) -> None:
        check_is_fitted(self)
        if self.training != "multiplicative":
            raise AttributeError(f"{name} is there with training='multiplicative' only")

    def _component_scores(self, X: Any) -> np.ndarray:
        """Return ln p(z, y, x), shape (n_samples, n_components)."""
        documents = inputs.prediction_documents(self, X)
        if self._is_of_counts:
            return joint_scores(self._parameters, documents)
        model = self._learner.model.variables
        return np.asarray(model.scores(self._parameters, model.features(documents)))

    def _joint_log_proba(self, X: Any) -> np.ndarray:
        if self.training != "multiplicative":
            return by_class(self._component_scores(X), self._learner.model.owners)[0]
        documents = inputs.prediction_documents(self, X)
        transform = self._learner.transform
        if self._sparse:
            return np.asarray(self._learner.scores(self._parameters, transform.sparse(documents)))
        # In C order as in training: sums along a row would round otherwise.
        rows = transform.dense(np.ascontiguousarray(documents, self._learner.dtype))
        return np.asarray(self._learner.scores(self._parameters, rows))

    @available_if(_has_density)
    def score_samples(self, X: Any) -> np.ndarray:
        """Return ln p(x) of each row, shape (n_samples,).

        Of the values that are not missing; of counts without the multinomial coefficient.

        Raises
        ------
        AttributeError
            The model is of the posterior only (``training="multiplicative"``).
        """
        check_is_fitted(self)
        return marginal_log_likelihood(self._joint_log_proba(X))

    @available_if(_has_density)
    def sample(self, n_samples: int = 1, random_state: Any = None, *, length: int = 100) -> tuple[Any, np.ndarray]:
        """Draw rows and their classes from p(x, y).

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
        length : int, default=100
            Words of each document, of multinomial components.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), float64, or CSR matrix of counts
        y : ndarray of shape (n_samples,)

        Raises
        ------
        AttributeError
            The model is of the posterior only (``training="multiplicative"``).
        """
        from sdem_dist.estimators.settings import seed_of

        check_is_fitted(self)
        rng = np.random.default_rng(seed_of(random_state))
        prior = np.exp(self._parameters.log_prior)
        drawn = rng.choice(len(prior), n_samples, p=prior / prior.sum())
        y = self.classes_[np.asarray(self._learner.model.owners)[drawn]]
        if self._is_of_counts:
            return sample_counts(self.theta_, drawn, length, rng), y
        X = self._learner.model.variables.sample(self._parameters, drawn, rng)
        return (np.maximum(X, 0.0) if self.components == "exponential" else X), y

    def _extra(self) -> dict[str, Any]:
        """Return what a model file holds beside arrays and settings."""
        return {"sparse": self._sparse}

    def _take_extra(self, extra: Any) -> None:
        """Take back what `_extra` returned."""
        self._sparse = bool(dict(extra)["sparse"])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        discriminative = self.training == "multiplicative"
        tags.input_tags.sparse = discriminative or self.components == "multinomial"
        tags.input_tags.positive_only = discriminative or self.components != "gaussian"
        tags.input_tags.allow_nan = not tags.input_tags.sparse
        tags.classifier_tags.poor_score = tags.input_tags.positive_only
        return tags


def sample_counts(log_words: np.ndarray, drawn: np.ndarray, length: int, rng: np.random.Generator) -> sp.csr_matrix:
    """Draw a document of so many words from each of some components, shape (n_drawn, n_features)."""
    p = np.exp(log_words)
    p /= p.sum(axis=1, keepdims=True)
    rows = [sp.csr_matrix(rng.multinomial(length, p[j])) for j in drawn]
    return sp.vstack(rows, format="csr") if rows else sp.csr_matrix((0, p.shape[1]), dtype=np.int64)
