"""Exponential families: what naive Bayes with dense features and users' own models are put together from."""

from sdem_dist.families.categorical import Bernoulli, Categorical, Multinomial
from sdem_dist.families.family import Family
from sdem_dist.families.gaussian import Gaussian, GaussianFull
from sdem_dist.families.positive_mean import Exponential, Poisson

__all__ = ["Bernoulli", "Categorical", "Exponential", "Family", "Gaussian", "GaussianFull", "Multinomial", "Poisson"]
