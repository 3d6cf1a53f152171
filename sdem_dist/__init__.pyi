"""The public names, a line each: type checkers read it, and so does the package, see `sdem_dist.catalogue`."""

from sdem_dist.corpus import concat as concat
from sdem_dist.corpus import open_corpus as open_corpus
from sdem_dist.corpus import write_corpus as write_corpus
from sdem_dist.errors import BucketError as BucketError
from sdem_dist.errors import ClusterError as ClusterError
from sdem_dist.errors import CorpusError as CorpusError
from sdem_dist.errors import IngestError as IngestError
from sdem_dist.errors import ModelError as ModelError
from sdem_dist.errors import SdemError as SdemError
from sdem_dist.errors import TrainingError as TrainingError
from sdem_dist.estimators.clusters import GaussianMixture as GaussianMixture
from sdem_dist.estimators.clusters import KMeans as KMeans
from sdem_dist.estimators.clusters import Mixture as Mixture
from sdem_dist.estimators.clusters import MultinomialMixture as MultinomialMixture
from sdem_dist.estimators.mixture_classifiers import EMMixtureClassifier as EMMixtureClassifier
from sdem_dist.estimators.mixture_classifiers import LDAClassifier as LDAClassifier
from sdem_dist.estimators.mixture_classifiers import (
    MultiplicativeMixtureClassifier as MultiplicativeMixtureClassifier,
)
from sdem_dist.estimators.mixture_classifiers import SdemMixtureClassifier as SdemMixtureClassifier
from sdem_dist.estimators.naive_bayes import ManyClassNB as ManyClassNB
from sdem_dist.estimators.naive_bayes import MultiLabelNB as MultiLabelNB
from sdem_dist.estimators.naive_bayes import MultinomialNB as MultinomialNB
from sdem_dist.estimators.tables import BernoulliNB as BernoulliNB
from sdem_dist.estimators.tables import CategoricalNB as CategoricalNB
from sdem_dist.estimators.tables import GaussianNB as GaussianNB
from sdem_dist.estimators.tables import GaussianRegressor as GaussianRegressor
from sdem_dist.estimators.tables import MixedNB as MixedNB
from sdem_dist.estimators.tables import PoissonNB as PoissonNB
from sdem_dist.estimators.topic_model import LatentDirichletAllocation as LatentDirichletAllocation
from sdem_dist.estimators.topic_model import SupervisedLDAClassifier as SupervisedLDAClassifier
from sdem_dist.estimators.topic_model import SupervisedLDARegressor as SupervisedLDARegressor
from sdem_dist.reports.report import cluster_scores as cluster_scores
from sdem_dist.saving import load_model as load_model
from sdem_dist.selection.out_of_fold import cross_validate as cross_validate
from sdem_dist.selection.out_of_fold import label_suspects as label_suspects
from sdem_dist.selection.out_of_fold import learning_curve as learning_curve
from sdem_dist.selection.search import CorpusSearchCV as CorpusSearchCV
from sdem_dist.text.ingest import ingest as ingest

__version__: str
