"""Loops over arrays, compiled by numba."""

TRAINING = """import numpy, scipy.sparse, sdem_dist
X = scipy.sparse.csr_matrix(numpy.random.default_rng(0).integers(0, 2, (400, 300), numpy.uint8))
sdem_dist.{}().fit(X, numpy.arange(400) % 3)"""
"""Code that compiles the kernels for training an estimator; it uses few counts in memory, and may end at any time."""
TRAINING_OF_WORDS = """import numpy as np
from sdem_dist.documents import Documents
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import Merge, margin_steps
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.heads import Classes, Unit
from sdem_dist.models.naive_bayes import NaiveBayes
learner = SdEM(NaiveBayes(9, Classes(3)), 18.0, Merge(margin_steps(1.0, Unit(1.0, 1.0), 1.0, 1.0)), "hinge")
labels, entries, words = np.arange(9, dtype=np.int32) % 3, np.ones(9, np.float32), np.arange(9, dtype=np.uint32)
documents, state = learner.prepare(Documents(entries, words, np.arange(10), 9, labels)), learner.init()
parts = [learner.map(state, documents, Lane(0, 0, lane, 0, 9, 18)) for lane in range(2)]
learner.evaluate(learner.update(state, learner.combine(parts)), [documents])"""
"""Code that compiles the kernels of `MultinomialNB` sooner: not those for weighting; those for scoring come last."""
beside = ""
"""Code for a second process, which starts when this process begins to compile, and ends with this process."""
