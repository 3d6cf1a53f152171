"""What documents say of the Dirichlet prior of their topics."""

import math

import numpy as np

from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.variational import digamma


@jit
def add_evidence(weight, alpha, counts, theta, mass, rows, evidence):
    """Add what a document says of the pseudo-counts ``alpha - 1`` of its topics, for the fixed point of Minka (2000).

    Words have topics with probability ``theta_k Phi_vk / (Phi theta)_v``. A count expected to be well below 1 is mostly
    0: psi is taken at the mean of the counts that are not, times their probability (Teh, Newman and Welling 2007,
    section 4).

    `weight`: float. `alpha`: shape (n_topics,), above 1. `counts`, `mass`: shape (n_words,), `mass` is Phi theta.
    `theta`: shape (n_topics,). `rows`: shape (n_words, n_topics).
    `evidence`: shape (n_topics + 1,), changed in place, the mean of ``psi(n_k + alpha_k - 1) - psi(alpha_k - 1)`` is
    added for each topic, and last that of the sums over topics.
    """
    expected, absent, length, pseudo = np.zeros(theta.size), np.zeros(theta.size), 0.0, 0.0
    for v in range(counts.size):
        length += counts[v]
        for k in range(theta.size):
            share = min(theta[k] * rows[v, k] / mass[v], 1.0 - 1e-12)
            expected[k] += counts[v] * share
            absent[k] += counts[v] * math.log1p(-share)
    for k in range(theta.size):
        own = alpha[k] - 1.0
        pseudo += own
        present = -math.expm1(absent[k])
        if present > 0.0:
            evidence[k] += weight * present * (digamma(expected[k] / present + own) - digamma(own))
    evidence[theta.size] += weight * (digamma(length + pseudo) - digamma(pseudo))
