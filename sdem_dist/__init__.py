"""Discriminative training of generative models over corpora of any size, on Dask.

The names below are imported when they are first used, so that ``import sdem_dist`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sdem_dist.corpus import open_corpus, write_corpus
    from sdem_dist.errors import ClusterError, CorpusError, IngestError, ModelError, SdemError, TrainingError
    from sdem_dist.estimators.bernoulli_nb import BernoulliNB
    from sdem_dist.estimators.categorical_nb import CategoricalNB
    from sdem_dist.estimators.cluster_scores import cluster_scores
    from sdem_dist.estimators.gaussian_nb import GaussianNB
    from sdem_dist.estimators.gaussian_regressor import GaussianRegressor
    from sdem_dist.estimators.latent_dirichlet_allocation import LatentDirichletAllocation
    from sdem_dist.estimators.lda_classifier import LDAClassifier
    from sdem_dist.estimators.mixed_nb import MixedNB
    from sdem_dist.estimators.mixture_classifier import MixtureClassifier
    from sdem_dist.estimators.multinomial_mixture import MultinomialMixture
    from sdem_dist.estimators.naive_bayes import MultinomialNB
    from sdem_dist.estimators.persistence import load_model
    from sdem_dist.estimators.poisson_nb import PoissonNB
    from sdem_dist.estimators.supervised_lda import SupervisedLDAClassifier, SupervisedLDARegressor
    from sdem_dist.text.ingest import ingest

__version__ = "0.1.0"

_HOME = {
    "BernoulliNB": "sdem_dist.estimators.bernoulli_nb",
    "CategoricalNB": "sdem_dist.estimators.categorical_nb",
    "GaussianNB": "sdem_dist.estimators.gaussian_nb",
    "GaussianRegressor": "sdem_dist.estimators.gaussian_regressor",
    "LDAClassifier": "sdem_dist.estimators.lda_classifier",
    "LatentDirichletAllocation": "sdem_dist.estimators.latent_dirichlet_allocation",
    "MixedNB": "sdem_dist.estimators.mixed_nb",
    "MixtureClassifier": "sdem_dist.estimators.mixture_classifier",
    "MultinomialMixture": "sdem_dist.estimators.multinomial_mixture",
    "MultinomialNB": "sdem_dist.estimators.naive_bayes",
    "PoissonNB": "sdem_dist.estimators.poisson_nb",
    "cluster_scores": "sdem_dist.estimators.cluster_scores",
    "SupervisedLDAClassifier": "sdem_dist.estimators.supervised_lda",
    "SupervisedLDARegressor": "sdem_dist.estimators.supervised_lda",
    "load_model": "sdem_dist.estimators.persistence",
    "open_corpus": "sdem_dist.corpus",
    "write_corpus": "sdem_dist.corpus",
    "ingest": "sdem_dist.text.ingest",
    **dict.fromkeys(
        ("SdemError", "CorpusError", "IngestError", "ModelError", "ClusterError", "TrainingError"), "sdem_dist.errors"
    ),
}

__all__ = [
    "BernoulliNB",
    "CategoricalNB",
    "ClusterError",
    "CorpusError",
    "GaussianNB",
    "GaussianRegressor",
    "IngestError",
    "LDAClassifier",
    "LatentDirichletAllocation",
    "MixedNB",
    "MixtureClassifier",
    "ModelError",
    "MultinomialMixture",
    "MultinomialNB",
    "PoissonNB",
    "SdemError",
    "SupervisedLDAClassifier",
    "SupervisedLDARegressor",
    "TrainingError",
    "cluster_scores",
    "ingest",
    "load_model",
    "open_corpus",
    "write_corpus",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'sdem_dist' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
