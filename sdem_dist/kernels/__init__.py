"""Loops over arrays, compiled by numba."""

TRAINING = """import numpy, scipy.sparse, sdem_dist
X = scipy.sparse.csr_matrix(numpy.random.default_rng(0).integers(0, 2, (400, 300), numpy.uint8))
sdem_dist.{}().fit(X, numpy.arange(400) % 3)"""
"""Code that compiles what an estimator needs in training: few counts, in memory, so that it may end at any time."""
beside = ""
"""Code that another process runs where this one begins to compile, so that two compile; it ends with this one."""
